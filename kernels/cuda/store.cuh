// How a warp writes its accumulators (tile.cuh) to a matrix in global memory.
#pragma once

#include "kernels/cuda/target.hpp"
#include "kernels/cuda/tile.cuh"

namespace dcp::kernels::cuda {

// Two neighbouring elements from an even element on.
__device__ __forceinline__ void store_pair(const Target& target,
                                           std::int64_t elem,
                                           float first,
                                           float second) {
    if (target.is_bf16) {
        auto* const at = reinterpret_cast<std::uint32_t*>(static_cast<bf16*>(target.data) + elem);
        const float2 before = target.accumulates ? unpack_bf16(*at) : make_float2(0.0F, 0.0F);
        *at = pack_bf16(before.x + first, before.y + second);
    } else {
        auto* const at = reinterpret_cast<float2*>(static_cast<float*>(target.data) + elem);
        const float2 before = target.accumulates ? *at : make_float2(0.0F, 0.0F);
        *at = make_float2(before.x + first, before.y + second);
    }
}

// Rows [0, num_rows) of the warp's 16 x D accumulators, row g times `upper` and row g + 8 times
// `lower`, go to row `row` and the next of the target, columns [column, column + num_columns).
// num_columns is a multiple of 8 up to D.
template <int D>
__device__ __forceinline__ void store_direct(const Target& target,
                                             std::int64_t row,
                                             int column,
                                             int num_rows,
                                             int num_columns,
                                             const float (&acc)[D / 8][4],
                                             float upper,
                                             float lower) {
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        const std::int64_t elem = (row + g) * target.stride + column + 8 * n + 2 * t;
        if (8 * n < num_columns && g < num_rows) {
            store_pair(target, elem, acc[n][0] * upper, acc[n][1] * upper);
        }
        if (8 * n < num_columns && g + 8 < num_rows) {
            store_pair(target, elem + 8 * target.stride, acc[n][2] * lower, acc[n][3] * lower);
        }
        keep_order();
    }
}

// The same; bf16 that overwrites goes through `stage`, 16 rows of a tile in shared memory that only
// this warp uses now, and from there in accesses of 16 bytes.
template <int D>
__device__ __forceinline__ void store_rows(const Target& target,
                                           std::int64_t row,
                                           int column,
                                           int num_rows,
                                           int num_columns,
                                           const float (&acc)[D / 8][4],
                                           float upper,
                                           float lower,
                                           bf16* stage) {
    if (!target.is_bf16 || target.accumulates) {
        store_direct<D>(target, row, column, num_rows, num_columns, acc, upper, lower);
        return;
    }
    using Layout = Tile<bf16, D>;
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    __syncwarp();  // other lanes may still read the operands that lie in `stage`
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        *reinterpret_cast<std::uint32_t*>(stage + Layout::at(g, n) + 2 * t) =
            pack_bf16(acc[n][0] * upper, acc[n][1] * upper);
        *reinterpret_cast<std::uint32_t*>(stage + Layout::at(g + 8, n) + 2 * t) =
            pack_bf16(acc[n][2] * lower, acc[n][3] * lower);
    }
    __syncwarp();  // what a lane reads below, others have written
    auto* const out = static_cast<bf16*>(target.data);
#pragma unroll
    for (int i = lane_index(); i < 16 * Layout::kChunks; i += kWarpThreads) {
        const int r = i / Layout::kChunks;
        const int chunk = i % Layout::kChunks;
        if (r < num_rows && chunk * Layout::kChunkElems < num_columns) {
            *reinterpret_cast<uint4*>(out + (row + r) * target.stride + column +
                                      chunk * Layout::kChunkElems) =
                *reinterpret_cast<const uint4*>(stage + Layout::at(r, chunk));
        }
    }
}
// fp32 kernels have fp32 results only.
template <int D>
__device__ __forceinline__ void store_rows(const Target& target,
                                           std::int64_t row,
                                           int column,
                                           int num_rows,
                                           int num_columns,
                                           const float (&acc)[D / 8][4],
                                           float upper,
                                           float lower,
                                           float* /*stage*/) {
    store_direct<D>(target, row, column, num_rows, num_columns, acc, upper, lower);
}

}  // namespace dcp::kernels::cuda
