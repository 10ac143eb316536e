#include "tests/cuda_emu/instructions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/cuda_emu/race_check.hpp"

namespace cuda_emu {

namespace {

Block& block() {
    return *Block::current();
}

void require_full_warp(const char* op, unsigned mask) {
    if (mask != kFullMask) {
        block().fail(std::string(op) + ": needs a full warp of 32 threads");
    }
}

// Instructions on shared memory: aligned, and inside the block's dynamic shared memory.
void check_shared(
    const char* op, const void* address, std::size_t bytes, unsigned line, unsigned lane) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto begin = reinterpret_cast<std::uintptr_t>(block().shared());
    const auto where = [&] {
        return std::string(op) + " at line " + std::to_string(line) + ", lane " +
               std::to_string(lane) + ": ";
    };
    if (at % bytes != 0) {
        block().fail(where() + "address not aligned to " + std::to_string(bytes) + " bytes");
    }
    if (at < begin || at + bytes > begin + block().shared_bytes()) {
        block().fail(where() + "address outside dynamic shared memory (offset " +
                     std::to_string(static_cast<std::ptrdiff_t>(at - begin)) + " of " +
                     std::to_string(block().shared_bytes()) + " bytes)");
    }
}

float low_half(std::uint32_t pair) {
    return std::bit_cast<float>(pair << 16);
}
float high_half(std::uint32_t pair) {
    return std::bit_cast<float>(pair & 0xffff0000U);
}

struct MmaOperands {
    const std::uint32_t* a;
    std::uint32_t b[2];
    float* d;
};

// The operands of 32 lanes as matrices. Layouts: kernels/cuda/ptx.cuh.
struct Matrices {
    alignas(64) float a[16][16];
    alignas(64) float b[16][8];
    alignas(64) float d[16][8];
};

void gather(Matrices& m, const Thread* lanes) {
    for (int lane = 0; lane < 32; lane++) {
        const auto& operands = *static_cast<const MmaOperands*>(lanes[lane].operands);
        const int g = lane / 4;
        const int t = lane % 4;
        for (int i = 0; i < 4; i++) {
            float* pair = &m.a[g + i % 2 * 8][2 * t + i / 2 * 8];
            pair[0] = low_half(operands.a[i]);
            pair[1] = high_half(operands.a[i]);
            m.d[g + i / 2 * 8][2 * t + i % 2] = operands.d[i];
        }
        for (int i = 0; i < 2; i++) {
            m.b[2 * t + 8 * i][g] = low_half(operands.b[i]);
            m.b[2 * t + 8 * i + 1][g] = high_half(operands.b[i]);
        }
    }
}

void scatter(const Matrices& m, const Thread* lanes) {
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 4; i++) {
            static_cast<MmaOperands*>(lanes[lane].operands)->d[i] =
                m.d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
        }
    }
}

// Products of two bf16 are exact in fp32.
void add_chain_to_nearest(Matrices& m) {
    using Row [[gnu::vector_size(32)]] = float;
    Row b[16];
    std::memcpy(b, m.b, sizeof b);
    for (int i = 0; i < 16; i++) {
        Row sum;
        std::memcpy(&sum, m.d[i], sizeof sum);
        for (int k = 0; k < 16; k++) {
            sum += m.a[i][k] * b[k];
        }
        std::memcpy(m.d[i], &sum, sizeof sum);
    }
}

void add_sum_to_zero(Matrices& m) {
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 8; j++) {
            double sum = static_cast<double>(m.d[i][j]);
            for (int k = 0; k < 16; k++) {
                sum += static_cast<double>(m.a[i][k]) * static_cast<double>(m.b[k][j]);
            }
            const auto nearest = static_cast<float>(sum);
            const bool is_larger = std::fabs(static_cast<double>(nearest)) > std::fabs(sum);
            m.d[i][j] = is_larger ? std::nextafter(nearest, 0.0F) : nearest;
        }
    }
}

// How many further passes the 8 rows of one matrix cost: shared memory has 8 groups of 4 banks, and
// a pass serves each group once. The same 16 bytes twice are one access.
unsigned bank_conflicts(const unsigned char* const (&rows)[8]) {
    int of_group[8] = {};
    int most = 1;
    for (int r = 0; r < 8; r++) {
        if (std::find(rows, rows + r, rows[r]) == rows + r) {
            most = std::max(most, ++of_group[(rows[r] - block().shared()) / 16 % 8]);
        }
    }
    return static_cast<unsigned>(most - 1);
}

struct RowOperands {
    const void* row;
    const unsigned char* elements[4][2];  // of this lane: two 16-bit elements of each matrix
};

}  // namespace

void mma_m16n8k16_bf16(float (&d)[4],
                       const std::uint32_t (&a)[4],
                       std::uint32_t b0,
                       std::uint32_t b1,
                       Location where) {
    const race::Unwatched unwatched;
    MmaOperands operands{a, {b0, b1}, d};
    block().thread().operands = &operands;
    block().meet("mma.sync", kFullMask, where, [](Thread* lanes, unsigned mask) {
        require_full_warp("mma.sync", mask);
        ++block().counters().mma;
        Matrices m;
        gather(m, lanes);
        if (config().mma_model == MmaModel::kChainToNearest) {
            add_chain_to_nearest(m);
        } else {
            add_sum_to_zero(m);
        }
        scatter(m, lanes);
    });
}

// Matrix i takes the addresses of its 8 rows from lanes 8i..8i+7. Plain: a lane gets the pair
// (lane / 4, 2 (lane % 4)); transposed: column lane / 4 of the two rows 2 (lane % 4) and the next.
void load_matrices(std::uint32_t* registers,
                   int num_matrices,
                   bool is_transposed,
                   const void* row,
                   Location where) {
    RowOperands operands{row, {}};
    {
        const race::Unwatched unwatched;
        block().thread().operands = &operands;
        block().meet("ldmatrix", kFullMask, where, [&](Thread* lanes, unsigned mask) {
            require_full_warp("ldmatrix", mask);
            ++block().counters().ldmatrix;
            for (int i = 0; i < num_matrices; i++) {
                const unsigned char* rows[8];
                for (int r = 0; r < 8; r++) {
                    const int lane = 8 * i + r;
                    const void* given = static_cast<RowOperands*>(lanes[lane].operands)->row;
                    check_shared("ldmatrix", given, 16, where.line(), static_cast<unsigned>(lane));
                    rows[r] = static_cast<const unsigned char*>(given);
                }
                block().counters().bank_conflicts += bank_conflicts(rows);
                for (int lane = 0; lane < 32; lane++) {
                    auto& mine = static_cast<RowOperands*>(lanes[lane].operands)->elements[i];
                    const int g = lane / 4;
                    const int t = lane % 4;
                    for (int e = 0; e < 2; e++) {
                        mine[e] = is_transposed ? rows[2 * t + e] + 2 * g : rows[g] + 4 * t + 2 * e;
                    }
                }
            }
        });
    }
#if defined(__SANITIZE_THREAD__)
    // The strictest reading of the manual: the lane that names a row reads it too.
    if (block().thread().linear % kWarpSize < static_cast<unsigned>(8 * num_matrices)) {
        for (int i = 0; i < 2; i++) {
            (void)static_cast<const volatile std::uint64_t*>(row)[i];
        }
    }
#endif
    for (int i = 0; i < num_matrices; i++) {
        std::uint16_t low = 0;
        std::uint16_t high = 0;
        std::memcpy(&low, operands.elements[i][0], 2);
        std::memcpy(&high, operands.elements[i][1], 2);
        registers[i] = low | static_cast<std::uint32_t>(high) << 16;
    }
}

void issue_copy(
    void* target, const void* source, unsigned bytes, unsigned source_bytes, Location where) {
    AsyncCopy copy{static_cast<unsigned char*>(target),
                   static_cast<const unsigned char*>(source),
                   bytes,
                   source_bytes,
                   where.line(),
                   {}};
    Thread& thread = block().thread();
    {
        const race::Unwatched unwatched;
        const std::string op = "cp.async at line " + std::to_string(copy.line);
        check_shared("cp.async", target, bytes, copy.line, thread.linear % kWarpSize);
        if (reinterpret_cast<std::uintptr_t>(source) % bytes != 0) {
            block().fail(op + ": source not aligned to " + std::to_string(bytes) + " bytes");
        }
        if (source_bytes > bytes) {
            block().fail(op + ": reads more than it writes");
        }
        ++block().counters().cp_async;
    }
    std::memcpy(copy.data, source, source_bytes);  // the rest stays zero
    std::memset(target, 0xff, bytes);              // undefined until waited for
    const race::Unwatched unwatched;
    thread.copies.push_back(copy);
    ++thread.open_copies;
}

void commit_copies() {
    const race::Unwatched unwatched;
    Thread& thread = block().thread();
    thread.copy_groups.push_back(thread.open_copies);
    thread.open_copies = 0;
}

void wait_for_copies(unsigned groups_left) {
    Thread& thread = block().thread();
    std::size_t num_copies = 0;
    std::size_t num_groups = 0;
    {
        const race::Unwatched unwatched;
        for (; thread.copy_groups.size() - num_groups > groups_left; num_groups++) {
            num_copies += thread.copy_groups[num_groups];
        }
        for (std::size_t i = 0; i < num_copies; i++) {
            const AsyncCopy& copy = thread.copies[i];
            if (std::memcmp(copy.source, copy.data, copy.source_bytes) != 0) {
                block().fail("cp.async of line " + std::to_string(copy.line) +
                             ": the source changed while the copy was in flight");
            }
        }
    }
    for (std::size_t i = 0; i < num_copies; i++) {
        std::memcpy(thread.copies[i].target, thread.copies[i].data, thread.copies[i].bytes);
    }
    const race::Unwatched unwatched;
    thread.copies.erase(thread.copies.begin(),
                        thread.copies.begin() + static_cast<std::ptrdiff_t>(num_copies));
    thread.copy_groups.erase(thread.copy_groups.begin(),
                             thread.copy_groups.begin() + static_cast<std::ptrdiff_t>(num_groups));
}

// ex2.approx.ftz: subnormal operands and results are zero.
float exp2_flushed(float x) {
    const auto flush = [](float y) {
        return std::fabs(y) < 1.17549435e-38F ? std::copysign(0.0F, y) : y;
    };
    return flush(std::exp2(flush(x)));
}

}  // namespace cuda_emu
