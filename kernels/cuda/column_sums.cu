// out[c] (+)= sum over b of partial[b][c] in a fixed order: the second half of every gradient of a
// norm's weight.
//
// Shapes: partial [B, C], out [C], fp32.
// Threads: a block has 32 columns; warp w adds the rows w, w + 8, ... of its lane's column, then
// the first warp adds these eight sums in order. Memory: the partial rows once. Deterministic.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/compat.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kColumnWarps = 8;
constexpr int kColumnThreads = kColumnWarps * kWarpThreads;

__global__ void __launch_bounds__(kColumnThreads)
    column_sums_kernel(const float* __restrict__ partial_BC,
                       std::int64_t num_blocks,
                       std::int64_t num_columns,
                       float* __restrict__ out_C,
                       bool accumulates) {
    DCP_SHARED(float, sums);
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarpThreads + lane_index();
    float sum = 0.0F;
    if (column < num_columns) {
        for (std::int64_t block = warp_index(); block < num_blocks; block += kColumnWarps) {
            sum += partial_BC[block * num_columns + column];
        }
    }
    sums[thread_index()] = sum;
    __syncthreads();  // the sums of all warps are there
    if (warp_index() > 0 || column >= num_columns) {
        return;
    }
#pragma unroll
    for (int warp = 1; warp < kColumnWarps; warp++) {
        sum += sums[warp * kWarpThreads + lane_index()];
    }
    out_C[column] = accumulates ? out_C[column] + sum : sum;
}

}  // namespace

void launch_column_sums(cudaStream_t stream,
                        const float* partial_BC,
                        std::int64_t num_blocks,
                        std::int64_t num_columns,
                        float* out_C,
                        GradMode mode) {
    if (num_columns == 0) {
        return;
    }
    const auto blocks = static_cast<unsigned>((num_columns + kWarpThreads - 1) / kWarpThreads);
    DCP_LAUNCH(column_sums_kernel, blocks, kColumnThreads, kColumnThreads * sizeof(float), stream,
               partial_BC, num_blocks, num_columns, out_C, mode == GradMode::kAccumulate);
    dcp::cuda::check_launch("column_sums", stream);
}

}  // namespace dcp::kernels::cuda
