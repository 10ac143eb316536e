// Thin device functions over the PTX instructions of the tensor-core kernels (sm_80 and later).
// Under nvcc they are inline PTX; the emulator brings the same functions.
//
// Fragment layouts of one warp, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4 (PTX ISA,
// "Matrix fragments for mma.m16n8k16 with floating point type"; two 16-bit elements a register, the
// lower column or lower k in the low half):
//
//   A 16x16, 4 registers   a[0] = A[g  ][2t..2t+1]   a[2] = A[g  ][2t+8..2t+9]
//                          a[1] = A[g+8][2t..2t+1]   a[3] = A[g+8][2t+8..2t+9]
//   B 16x8, 2 registers    b0   = B[2t..2t+1][g]     b1   = B[2t+8..2t+9][g]
//   C/D 16x8, 4 floats     d[0..1] = D[g][2t..2t+1]  d[2..3] = D[g+8][2t..2t+1]
//
// ldmatrix of 8x8 16-bit matrices: lanes 8i..8i+7 give the addresses of the rows of matrix i (16
// bytes each, 16-byte aligned). A lane gets in r[i]: plain M_i[g][2t..2t+1]; .trans M_i[2t][g] in
// the low half and M_i[2t+1][g] in the high half. So plain ldmatrix of 8 rows is one register of A,
// or of B when memory holds B transposed (rows = n); .trans is one register of B when memory holds
// B itself (rows = k), or of A when memory holds A transposed.
//
// Two neighbouring D tiles (columns 16j..16j+15), rounded and packed, are one A fragment:
// { d_2j[0..1], d_2j[2..3], d_2j+1[0..1], d_2j+1[2..3] }.
#pragma once

#include "kernels/cuda/compat.cuh"

#if defined(DCP_CUDA_EMULATED)

#include <cuda_emulated_instructions.h>

#else

namespace dcp::kernels::cuda::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// d += a b, accumulated in fp32
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4],
                                                  const std::uint32_t (&a)[4],
                                                  std::uint32_t b0,
                                                  std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldmatrix(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Asynchronous copy of 4 (through L1) or 16 (L2 only) bytes from global to shared memory. Only the
// first source_bytes are read, the rest of the target becomes zero. Both addresses are multiples of
// Bytes.
template <int Bytes>
__device__ __forceinline__ void cp_async(void* target,
                                         const void* source,
                                         int source_bytes = Bytes) {
    static_assert(Bytes == 4 || Bytes == 16);
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)),
                     "l"(__cvta_generic_to_global(source)), "r"(source_bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(target)),
                     "l"(__cvta_generic_to_global(source)), "r"(source_bytes)
                     : "memory");
    }
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most N of this thread's groups are in flight. What other threads have copied is
// there only after a barrier that follows.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// 2^x to about 2^-22 relative; subnormal numbers are zero.
__device__ __forceinline__ float ex2(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

}  // namespace dcp::kernels::cuda::ptx

#endif

namespace dcp::kernels::cuda {

using bf16 = __nv_bfloat16;

// Loads and stores do not move across it in the compiler: unrolled loops would otherwise begin with
// all of their loads, and keep what they loaded in registers that are needed. Orders nothing at run
// time.
__device__ __forceinline__ void keep_order() {
#if !defined(DCP_CUDA_EMULATED)
    asm volatile("" ::: "memory");
#endif
}

// The same value, but the compiler does not know it: what is computed from it is computed here, not
// once before a loop and kept in registers.
__device__ __forceinline__ std::int64_t hide(std::int64_t value) {
#if !defined(DCP_CUDA_EMULATED)
    asm volatile("" : "+l"(value));
#endif
    return value;
}

// Two floats rounded to nearest even, `low` in the low half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
#if defined(DCP_CUDA_EMULATED)
    return static_cast<std::uint32_t>(__float2bfloat16_rn(low).bits) |
           static_cast<std::uint32_t>(__float2bfloat16_rn(high).bits) << 16;
#else
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}
__device__ __forceinline__ float2 unpack_bf16(std::uint32_t pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U));
}

}  // namespace dcp::kernels::cuda
