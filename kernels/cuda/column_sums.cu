// out[c] (+)= sum over b of partial[b][c], b in order: the second half of every gradient of a
// norm's weight.
//
// Shapes: partial [B, C], out [C], fp32. Threads: one a column, neighbours side by side.
// Memory: the partial rows once. Deterministic.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/compat.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kColumnThreads = 128;

__global__ void __launch_bounds__(kColumnThreads)
    column_sums_kernel(const float* __restrict__ partial_BC,
                       std::int64_t num_blocks,
                       std::int64_t num_columns,
                       float* __restrict__ out_C,
                       bool accumulates) {
    const std::int64_t column =
        static_cast<std::int64_t>(blockIdx.x) * kColumnThreads + thread_index();
    if (column >= num_columns) {
        return;
    }
    float sum = 0.0F;
    for (std::int64_t block = 0; block < num_blocks; block++) {
        sum += partial_BC[block * num_columns + column];
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
    const auto blocks = static_cast<unsigned>((num_columns + kColumnThreads - 1) / kColumnThreads);
    DCP_LAUNCH(column_sums_kernel, blocks, kColumnThreads, 0, stream, partial_BC, num_blocks,
               num_columns, out_C, mode == GradMode::kAccumulate);
    dcp::cuda::check_launch("column_sums", stream);
}

}  // namespace dcp::kernels::cuda
