// The row term of the softmax gradient: delta[h][i] = sum_d O[i][h][d] dO[i][h][d].
//
// Shapes: o, d_o [Tq, H, D], D a multiple of 8; delta [H, Tq] in fp32.
// Threads: one block = 64 query rows of one span and query head; eight neighbouring lanes share a
// row, in accesses of 16 bytes, and add up by shuffles.
// Memory: o and d_o once, 4 bytes out a row and head. Deterministic.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/attention_shape.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kLanesARow = 8;

__device__ __forceinline__ float dot_of_chunk(const bf16* a, const bf16* b) {
    const uint4 x = *reinterpret_cast<const uint4*>(a);
    const uint4 y = *reinterpret_cast<const uint4*>(b);
    const auto dot = [](unsigned p, unsigned q, float sum) {
        const float2 u = unpack_bf16(p);
        const float2 w = unpack_bf16(q);
        return fmaf(u.y, w.y, fmaf(u.x, w.x, sum));
    };
    return dot(x.w, y.w, dot(x.z, y.z, dot(x.y, y.y, dot(x.x, y.x, 0.0F))));
}
__device__ __forceinline__ float dot_of_chunk(const float* a, const float* b) {
    const float4 x = *reinterpret_cast<const float4*>(a);
    const float4 y = *reinterpret_cast<const float4*>(b);
    return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, x.x * y.x)));
}

template <class T>
__global__ void __launch_bounds__(kAttentionThreads) attention_delta_kernel(
    const AttentionProblem problem, const Rows o, const Rows d_o, float* delta_HT) {
    constexpr int kChunkElems = 16 / static_cast<int>(sizeof(T));
    const AttentionTile tile = problem.tiles[blockIdx.x];
    const int head = static_cast<int>(blockIdx.y);
    const int num_rows = min(kAttentionTileRows, tile.q_count - tile.first);
    const std::int64_t first_row = tile.q_begin + tile.first;
    const int column = head * problem.head_dim;
    const int lane = lane_index() % kLanesARow;
    // All lanes of a warp take the same number of turns: the shuffles need all of them.
    for (int i = 0; i < kAttentionTileRows; i += kAttentionThreads / kLanesARow) {
        const int row = i + thread_index() / kLanesARow;
        float sum = 0.0F;
        if (row < num_rows) {
            const T* const o_row =
                static_cast<const T*>(o.data) + (first_row + row) * o.stride + column;
            const T* const d_o_row =
                static_cast<const T*>(d_o.data) + (first_row + row) * d_o.stride + column;
            for (int d = lane * kChunkElems; d < problem.head_dim; d += kLanesARow * kChunkElems) {
                sum += dot_of_chunk(o_row + d, d_o_row + d);
            }
        }
#pragma unroll
        for (int distance = kLanesARow / 2; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(kAllLanes, sum, distance);
        }
        if (lane == 0 && row < num_rows) {
            delta_HT[head * problem.num_queries + first_row + row] = sum;
        }
    }
}

}  // namespace

void launch_attention_delta(cudaStream_t stream,
                            DType dtype,
                            const AttentionProblem& problem,
                            const Rows& o,
                            const Rows& d_o,
                            float* delta_HT) {
    if (problem.num_tiles == 0) {
        return;
    }
    const dim3 grid = attention_grid(problem, problem.num_heads);
    if (dtype == DType::kBFloat16) {
        DCP_LAUNCH(attention_delta_kernel<bf16>, grid, kAttentionThreads, 0, stream, problem, o,
                   d_o, delta_HT);
    } else {
        DCP_LAUNCH(attention_delta_kernel<float>, grid, kAttentionThreads, 0, stream, problem, o,
                   d_o, delta_HT);
    }
    dcp::cuda::check_launch("attention_delta", stream);
}

}  // namespace dcp::kernels::cuda
