// What the row kernels share: eight neighbouring elements of a row at a time, of either type, and
// sums over a block in a fixed order.
//
// The type is looked at when the kernel runs: all of these kernels wait for memory, and one kernel
// for all pairs of types is one kernel to test.
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/target.hpp"

namespace dcp::kernels::cuda {

inline constexpr int kVector = 8;  // elements; 16 bytes of bf16, two times 16 of fp32

__device__ __forceinline__ bool is_aligned(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

__device__ __forceinline__ void load_vector(const bf16* from, int count, float (&v)[kVector]) {
    if (count >= kVector && is_aligned(from)) {
        const uint4 packed = *reinterpret_cast<const uint4*>(from);
        const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = unpack_bf16(words[i]);
            v[2 * i] = pair.x;
            v[2 * i + 1] = pair.y;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        v[i] = i < count ? __bfloat162float(from[i]) : 0.0F;
    }
}
__device__ __forceinline__ void load_vector(const float* from, int count, float (&v)[kVector]) {
    if (count >= kVector && is_aligned(from)) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float4 four = reinterpret_cast<const float4*>(from)[i];
            v[4 * i] = four.x;
            v[4 * i + 1] = four.y;
            v[4 * i + 2] = four.z;
            v[4 * i + 3] = four.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        v[i] = i < count ? from[i] : 0.0F;
    }
}

__device__ __forceinline__ void store_vector(bf16* to, int count, const float (&v)[kVector]) {
    if (count >= kVector && is_aligned(to)) {
        *reinterpret_cast<uint4*>(to) = make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
                                                   pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
        return;
    }
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        if (i < count) {
            to[i] = __float2bfloat16_rn(v[i]);
        }
    }
}
__device__ __forceinline__ void store_vector(float* to, int count, const float (&v)[kVector]) {
    if (count >= kVector && is_aligned(to)) {
        reinterpret_cast<float4*>(to)[0] = make_float4(v[0], v[1], v[2], v[3]);
        reinterpret_cast<float4*>(to)[1] = make_float4(v[4], v[5], v[6], v[7]);
        return;
    }
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        if (i < count) {
            to[i] = v[i];
        }
    }
}

// Elements [column, column + 8) of a row that has `columns` of them; zeros past its end.
__device__ __forceinline__ void load_vector(
    const Rows& matrix, std::int64_t row, int column, int columns, float (&v)[kVector]) {
    const std::int64_t at = row * matrix.stride + column;
    if (column >= columns) {
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            v[i] = 0.0F;
        }
    } else if (matrix.is_bf16) {
        load_vector(static_cast<const bf16*>(matrix.data) + at, columns - column, v);
    } else {
        load_vector(static_cast<const float*>(matrix.data) + at, columns - column, v);
    }
}
__device__ __forceinline__ void store_vector(
    const Target& matrix, std::int64_t row, int column, int columns, const float (&v)[kVector]) {
    const std::int64_t at = row * matrix.stride + column;
    if (column >= columns) {
        return;
    }
    if (matrix.is_bf16) {
        store_vector(static_cast<bf16*>(matrix.data) + at, columns - column, v);
    } else {
        store_vector(static_cast<float*>(matrix.data) + at, columns - column, v);
    }
}

// Sums over all threads of the block, the same bits for each of them. `scratch`: N * 32 floats of
// shared memory; free again when the function returns.
template <int N>
__device__ __forceinline__ void block_sum(float (&values)[N], float* scratch) {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            values[n] += __shfl_xor_sync(kAllLanes, values[n], distance);
        }
        if (lane_index() == 0) {
            scratch[n * kWarpThreads + warp_index()] = values[n];
        }
    }
    __syncthreads();  // the sums of all warps are there
    const int num_warps = static_cast<int>(blockDim.x) / kWarpThreads;
#pragma unroll
    for (int n = 0; n < N; n++) {
        values[n] = 0.0F;
        for (int warp = 0; warp < num_warps; warp++) {
            values[n] += scratch[n * kWarpThreads + warp];
        }
    }
    __syncthreads();  // everybody has read them
}

}  // namespace dcp::kernels::cuda
