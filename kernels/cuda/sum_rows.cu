// Rows put together: what packs and unpacks the blocks that ranks exchange (kernels/sum_rows.hpp).
//
//   to[t,c] = from[0][t,c] + from[1][t,c] + ...,  in this order in fp32, rounded once
//
// Shapes: [T, C] each, of either type, rows may be strided. No source: zeros. One source of the
// same type keeps its bits: bf16 becomes fp32 and bf16 again without loss (a NaN becomes the quiet
// one). Threads: one a vector of eight elements. Memory: every source and the result once.
#include <string>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "core/base/errors.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kSumThreads = 128;
constexpr int kMaxSources = 64;  // they travel as an argument of the launch

struct SumArgs {
    Rows from[kMaxSources];
    int num_sources = 0;
    Target to;
    std::int64_t num_rows = 0;
    int columns = 0;
};

__global__ void __launch_bounds__(kSumThreads) sum_rows_kernel(const SumArgs args) {
    const std::int64_t vectors = (args.columns + kVector - 1) / kVector;
    const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kSumThreads + thread_index();
    const std::int64_t row = item / vectors;
    if (row >= args.num_rows) {
        return;
    }
    const int column = static_cast<int>(item % vectors) * kVector;
    float sum[kVector] = {};
    for (int source = 0; source < args.num_sources; source++) {
        float v[kVector];
        load_vector(args.from[source], row, column, args.columns, v);
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            sum[i] = source == 0 ? v[i] : sum[i] + v[i];
        }
    }
    store_vector(args.to, row, column, args.columns, sum);
}

void copy_bytes(cudaStream_t stream, const ConstTensor& from, const Tensor& to) {
    const std::size_t element_bytes = size_bytes(to.dtype());
    const std::size_t width = static_cast<std::size_t>(to.dim(1)) * element_bytes;
    const auto pitch = [&](const ConstTensor& tensor) {  // of a single row it may be anything
        return tensor.dim(0) > 1 ? static_cast<std::size_t>(tensor.row_stride()) * element_bytes
                                 : width;
    };
    if (from.data() != to.data()) {
        dcp::cuda::check(cudaMemcpy2DAsync(to.data(), pitch(to), from.data(), pitch(from), width,
                                           static_cast<std::size_t>(to.dim(0)),
                                           cudaMemcpyDeviceToDevice, stream),
                         "cudaMemcpy2DAsync");
    }
}

}  // namespace

void sum_rows(Queue& queue, const SumRows& args) {
    if (args.from.size() > kMaxSources) {
        throw UnsupportedError("sum_rows: " + std::to_string(args.from.size()) +
                               " sources; the CUDA backend takes up to " +
                               std::to_string(kMaxSources));
    }
    if (args.to.num_elems() == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    if (args.from.size() == 1 && args.from[0].dtype() == args.to.dtype()) {
        copy_bytes(stream, args.from[0], args.to);
        return;
    }
    SumArgs sum{.num_sources = static_cast<int>(args.from.size()),
                .to = target_of(args.to),
                .num_rows = args.to.dim(0),
                .columns = static_cast<int>(args.to.dim(1))};
    for (std::size_t i = 0; i < args.from.size(); i++) {
        sum.from[i] = rows_of(args.from[i]);
    }
    const std::int64_t vectors = sum.num_rows * ((sum.columns + kVector - 1) / kVector);
    DCP_LAUNCH(sum_rows_kernel, static_cast<unsigned>((vectors + kSumThreads - 1) / kSumThreads),
               kSumThreads, 0, stream, sum);
    dcp::cuda::check_launch("sum_rows", stream);
}

}  // namespace dcp::kernels::cuda
