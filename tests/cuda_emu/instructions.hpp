// The PTX instructions that kernels/cuda/ptx.cuh names, for the emulator: same functions, same
// fragment layouts, same rules. Every one that involves a warp is a meeting of its 32 lanes.
//
// mma exchanges registers only. ldmatrix exchanges the row addresses in the meeting; each lane then
// reads its own elements, so that the sanitizers see the access as that lane's. cp.async fills its
// target with NaN when issued, delivers when its own thread waits for its group, and fails the
// launch when a thread ends with copies in flight or the source changes meanwhile.
#pragma once

#include <cstdint>
#include <source_location>

#include "tests/cuda_emu/block.hpp"

namespace cuda_emu {

void mma_m16n8k16_bf16(
    float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, Location where);

// num_matrices: 1, 2 or 4
void load_matrices(std::uint32_t* registers,
                   int num_matrices,
                   bool is_transposed,
                   const void* row,
                   Location where);

void issue_copy(
    void* target, const void* source, unsigned bytes, unsigned source_bytes, Location where);
void commit_copies();
void wait_for_copies(unsigned groups_left);

float exp2_flushed(float x);

}  // namespace cuda_emu

namespace dcp::kernels::cuda::ptx {

using Location = std::source_location;

inline void mma_m16n8k16_bf16(float (&d)[4],
                              const std::uint32_t (&a)[4],
                              std::uint32_t b0,
                              std::uint32_t b1,
                              Location where = Location::current()) {
    cuda_emu::mma_m16n8k16_bf16(d, a, b0, b1, where);
}

template <int N>
void ldmatrix(std::uint32_t (&r)[N], const void* row, Location where = Location::current()) {
    static_assert(N == 1 || N == 2 || N == 4);
    cuda_emu::load_matrices(r, N, false, row, where);
}
template <int N>
void ldmatrix_trans(std::uint32_t (&r)[N], const void* row, Location where = Location::current()) {
    static_assert(N == 1 || N == 2 || N == 4);
    cuda_emu::load_matrices(r, N, true, row, where);
}

template <int Bytes>
void cp_async(void* target,
              const void* source,
              int source_bytes = Bytes,
              Location where = Location::current()) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
    cuda_emu::issue_copy(target, source, Bytes, static_cast<unsigned>(source_bytes), where);
}
inline void cp_async_commit() {
    cuda_emu::commit_copies();
}
template <int N>
void cp_async_wait() {
    cuda_emu::wait_for_copies(N);
}

inline float ex2(float x) {
    return cuda_emu::exp2_flushed(x);
}

}  // namespace dcp::kernels::cuda::ptx
