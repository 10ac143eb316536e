// Each emulated instruction against a plain statement of what it does, and the misuses that must be
// caught.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/emulated/emulation.hpp"
#include <catch2/catch.hpp>

#include "kernels/cuda/ptx.cuh"

namespace dcp::test {
namespace {

using kernels::cuda::bf16;
namespace ptx = kernels::cuda::ptx;

cudaStream_t stream(Emulation& emulation) {
    return cuda::stream_of(emulation.queue());
}

struct Matrices {
    float c[16][8];
    float d[16][8];
    bf16 a[16][16];
    bf16 b[16][8];
    bf16 b_transposed[8][16];
};

Matrices matrices() {
    Matrices m{};
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++) {
            m.a[i][k] = __float2bfloat16_rn(static_cast<float>((i * 7 + k * 3) % 11 - 5));
        }
        for (int j = 0; j < 8; j++) {
            m.b[i][j] = __float2bfloat16_rn(static_cast<float>((i * 5 + j * 2) % 13 - 6));
            m.b_transposed[j][i] = m.b[i][j];
            m.c[i][j] = static_cast<float>(i - j);
        }
    }
    return m;
}

// Small integers: exact in every order and model.
void check_product(const Matrices& m) {
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 8; j++) {
            float expected = m.c[i][j];
            for (int k = 0; k < 16; k++) {
                expected += __bfloat162float(m.a[i][k]) * __bfloat162float(m.b[k][j]);
            }
            CHECK(m.d[i][j] == expected);
        }
    }
}

// Fragments picked element by element by the index formulas of the PTX manual.
__global__ void multiply_by_formula(Matrices* m) {
    const int group = static_cast<int>(threadIdx.x) / 4;
    const int in_group = static_cast<int>(threadIdx.x) % 4;
    bf16 a[8];
    bf16 b[4];
    float d[4];
    for (int i = 0; i < 8; i++) {
        const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
        a[i] = m->a[row][in_group * 2 + i % 2 + (i < 4 ? 0 : 8)];
    }
    for (int i = 0; i < 4; i++) {
        b[i] = m->b[in_group * 2 + i % 2 + (i < 2 ? 0 : 8)][group];
        d[i] = m->c[i < 2 ? group : group + 8][in_group * 2 + i % 2];
    }
    std::uint32_t a_registers[4];
    std::uint32_t b_registers[2];
    std::memcpy(a_registers, a, sizeof a);
    std::memcpy(b_registers, b, sizeof b);
    ptx::mma_m16n8k16_bf16(d, a_registers, b_registers[0], b_registers[1]);
    for (int i = 0; i < 4; i++) {
        m->d[i < 2 ? group : group + 8][in_group * 2 + i % 2] = d[i];
    }
}

// The same through shared memory, B from either order of storage.
template <bool kBIsTransposed>
__global__ void multiply_by_ldmatrix(Matrices* m) {
    DCP_SHARED(bf16, shared);
    bf16* const a_tile = shared;
    bf16* const b_tile = shared + 256;
    const int lane = static_cast<int>(threadIdx.x);
    for (int i = lane; i < 256; i += 32) {
        a_tile[i] = m->a[i / 16][i % 16];
    }
    for (int i = lane; i < 128; i += 32) {
        b_tile[i] = kBIsTransposed ? m->b_transposed[i / 16][i % 16] : m->b[i / 8][i % 8];
    }
    __syncwarp();
    std::uint32_t a[4];
    std::uint32_t b[2];
    ptx::ldmatrix(a, a_tile + lane % 16 * 16 + lane / 16 * 8);
    if (kBIsTransposed) {
        ptx::ldmatrix(b, b_tile + lane % 8 * 16 + lane / 8 % 2 * 8);
    } else {
        ptx::ldmatrix_trans(b, b_tile + lane % 16 * 8);
    }
    const int g = lane / 4;
    const int t = lane % 4;
    float d[4] = {m->c[g][2 * t], m->c[g][2 * t + 1], m->c[g + 8][2 * t], m->c[g + 8][2 * t + 1]};
    ptx::mma_m16n8k16_bf16(d, a, b[0], b[1]);
    for (int e = 0; e < 4; e++) {
        m->d[g + e / 2 * 8][2 * t + e % 2] = d[e];
    }
}

TEST_CASE("emulator: mma and ldmatrix", "[emulated]") {
    for (const auto model : {cuda_emu::MmaModel::kChainToNearest, cuda_emu::MmaModel::kSumToZero}) {
        Emulation emulation(cuda_emu::Schedule::kUnfair, model);
        Matrices m = matrices();
        DCP_LAUNCH(multiply_by_formula, 1, 32, 0, stream(emulation), &m);
        emulation.queue().synchronize();
        check_product(m);
        std::memset(m.d, 0xff, sizeof m.d);
        DCP_LAUNCH(multiply_by_ldmatrix<false>, 1, 32, 768, stream(emulation), &m);
        emulation.queue().synchronize();
        check_product(m);
        std::memset(m.d, 0xff, sizeof m.d);
        DCP_LAUNCH(multiply_by_ldmatrix<true>, 1, 32, 768, stream(emulation), &m);
        emulation.queue().synchronize();
        check_product(m);
    }
}

enum class Fault {
    kNone,
    kNoWait,
    kWaitsForOlder,
    kNoCommit,
    kMisaligned,
    kOutside,
    kSourceChanges,
    kHalfWarp,
    kReadsTooMuch
};

// 32 copies of 16 bytes, the last ones partial, and in a group of their own 32 of 4 bytes.
template <Fault kFault>
__global__ void copy(int* source, int* target, int num_ints) {
    DCP_SHARED(int, shared);
    const int lane = static_cast<int>(threadIdx.x);
    const int i = 4 * lane;
    if (kFault == Fault::kHalfWarp && lane < 16) {
        std::uint32_t r[1];
        ptx::ldmatrix(r, shared);
    }
    const int shift = kFault == Fault::kMisaligned ? 1 : kFault == Fault::kOutside ? 128 : 0;
    const int bytes =
        std::clamp(num_ints - i, 0, 4) * 4 + (kFault == Fault::kReadsTooMuch ? 16 : 0);
    ptx::cp_async<16>(shared + i + shift, source + i, bytes);
    if (kFault != Fault::kNoCommit) {
        ptx::cp_async_commit();
    }
    ptx::cp_async<4>(shared + 128 + lane, source + lane, 4);
    if (kFault != Fault::kNoCommit) {
        ptx::cp_async_commit();
    }
    if (kFault == Fault::kSourceChanges) {
        source[i]++;
    }
    if (kFault == Fault::kWaitsForOlder) {
        ptx::cp_async_wait<1>();
    } else if (kFault != Fault::kNoWait) {
        ptx::cp_async_wait<0>();
    }
    __syncwarp();
    for (int e = 0; e < 4; e++) {
        target[i + e] = shared[i + e];
    }
    target[128 + lane] = shared[128 + lane];
    ptx::cp_async_wait<0>();
}

constexpr int kPoison = -1;  // what 0xff bytes are as an int

template <Fault kFault>
std::vector<int> copied() {
    Emulation emulation;
    std::vector<int> source(128);
    for (int i = 0; i < 128; i++) {
        source[static_cast<std::size_t>(i)] = i + 1;
    }
    std::vector<int> target(160, 0);
    DCP_LAUNCH(copy<kFault>, 1, 32, 160 * sizeof(int), stream(emulation), source.data(),
               target.data(), 126);
    emulation.queue().synchronize();
    return target;
}

TEST_CASE("emulator: asynchronous copies arrive when they are waited for", "[emulated]") {
    const std::vector<int> all = copied<Fault::kNone>();
    CHECK(all[0] == 1);
    CHECK(all[125] == 126);
    CHECK(all[126] == 0);  // filled up with zeros
    CHECK(all[128] == 1);
    CHECK(all[159] == 32);
    const std::vector<int> none = copied<Fault::kNoWait>();
    CHECK(none[0] == kPoison);
    CHECK(none[159] == kPoison);
    const std::vector<int> older = copied<Fault::kWaitsForOlder>();
    CHECK(older[0] == 1);
    CHECK(older[159] == kPoison);
}

TEST_CASE("emulator: misuse of copies and matrix loads is reported", "[emulated]") {
    CHECK_THROWS_WITH(copied<Fault::kNoCommit>(), Catch::Contains("in flight"));
    CHECK_THROWS_WITH(copied<Fault::kMisaligned>(), Catch::Contains("not aligned to 16 bytes"));
    CHECK_THROWS_WITH(copied<Fault::kOutside>(), Catch::Contains("outside dynamic shared memory"));
    CHECK_THROWS_WITH(copied<Fault::kSourceChanges>(), Catch::Contains("source changed"));
    CHECK_THROWS_WITH(copied<Fault::kHalfWarp>(),
                      Catch::Contains("ldmatrix at line") && Catch::Contains("is in __syncwarp"));
    CHECK_THROWS_WITH(copied<Fault::kReadsTooMuch>(), Catch::Contains("reads more than it writes"));
}

// Eight rows of 128 bytes, all in the same group of banks.
__global__ void conflicting_rows() {
    DCP_SHARED(bf16, shared);
    std::uint32_t r[1];
    ptx::ldmatrix(r, shared + threadIdx.x % 8 * 64);
}

TEST_CASE("emulator: bank conflicts of matrix loads are counted", "[emulated]") {
    Emulation emulation;
    DCP_LAUNCH(conflicting_rows, 1, 32, 1024, stream(emulation));
    emulation.queue().synchronize();
    CHECK(emulation.counters().bank_conflicts == 7);
}

TEST_CASE("emulator: conversions and 2^x", "[emulated]") {
    CHECK(__float2bfloat16_rn(1.00390625F).bits == 0x3f80);  // half way: to even
    CHECK(__float2bfloat16_rn(1.01171875F).bits == 0x3f82);
    CHECK(__float2bfloat16_rn(NAN).bits == 0x7fff);
    CHECK(__bfloat162float({0xc040}) == -3.0F);
    CHECK(kernels::cuda::pack_bf16(1.0F, -3.0F) == 0xc0403f80U);
    CHECK(ptx::ex2(3.0F) == 8.0F);
    CHECK(ptx::ex2(-INFINITY) == 0.0F);
    CHECK(ptx::ex2(-140.0F) == 0.0F);  // subnormal
}

}  // namespace
}  // namespace dcp::test
