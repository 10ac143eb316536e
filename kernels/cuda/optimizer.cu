// AdamW on flat fp32 arrays, and sums over flat arrays (kernels/optimizer.hpp).
//
//   g' = g scale,  m = beta1 m + (1 - beta1) g',  v = beta2 v + (1 - beta2) g'^2
//   p -= lr decay p + (lr / bias1) m / (sqrt(v / bias2) + epsilon),  bias_i = 1 - beta_i^step
//
// The factors are made in double on the host; the two small terms are added first, so that p is
// rounded once and a small decay is not lost in a factor close to 1.
// Optionally the new p, rounded to bf16, goes to an array of its own: what products read.
// Threads: one a vector of eight elements. Memory: p, m, v read and written, g read: 28 bytes an
// element, 2 more for the rounded p.
// Sums: one block for 32768 elements, in double, a fixed tree; then one block over these sums. The
// same bits every time. Memory: the operands once.
#include <cmath>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "core/base/errors.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kOptimizerThreads = 256;
constexpr int kOptimizerWarps = kOptimizerThreads / kWarpThreads;
constexpr std::int64_t kElemsASum = 32768;  // as the contract's workspace has it

struct AdamWArgs {
    float* p = nullptr;
    const float* g = nullptr;
    float* m = nullptr;
    float* v = nullptr;
    bf16* cast = nullptr;  // may be null
    std::int64_t num_elems = 0;
    float scale = 1;
    float beta1 = 0;
    float beta2 = 0;
    float rest1 = 0;  // 1 - beta1
    float rest2 = 0;
    float rate = 0;  // lr / bias1
    float inverse_bias2 = 0;
    float epsilon = 0;
    float decay = 0;  // lr decay
};

__global__ void __launch_bounds__(kOptimizerThreads) adamw_kernel(const AdamWArgs args) {
    const std::int64_t begin =
        (static_cast<std::int64_t>(blockIdx.x) * kOptimizerThreads + thread_index()) * kVector;
    if (begin >= args.num_elems) {
        return;
    }
    const int count =
        static_cast<int>(min(args.num_elems - begin, static_cast<std::int64_t>(kVector)));
    float p[kVector];
    float g[kVector];
    float m[kVector];
    float v[kVector];
    load_vector(args.p + begin, count, p);
    load_vector(args.g + begin, count, g);
    load_vector(args.m + begin, count, m);
    load_vector(args.v + begin, count, v);
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        const float scaled = g[i] * args.scale;
        m[i] = fmaf(args.rest1, scaled, args.beta1 * m[i]);
        v[i] = fmaf(args.rest2, scaled * scaled, args.beta2 * v[i]);
        const float spread = sqrtf(v[i] * args.inverse_bias2) + args.epsilon;
        p[i] -= fmaf(args.decay, p[i], args.rate * m[i] / spread);
    }
    store_vector(args.p + begin, count, p);
    store_vector(args.m + begin, count, m);
    store_vector(args.v + begin, count, v);
    if (args.cast != nullptr) {
        store_vector(args.cast + begin, count, p);
    }
}

// Over the block, in a fixed order; valid in thread 0.
__device__ __forceinline__ double block_sum_double(double value, double* scratch) {
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kAllLanes, value, distance);
    }
    if (lane_index() == 0) {
        scratch[warp_index()] = value;
    }
    __syncthreads();  // the sums of all warps are there
    double sum = 0.0;
    for (int warp = 0; warp < kOptimizerWarps; warp++) {
        sum += scratch[warp];
    }
    return sum;
}

// sums[block] = sum of x[i] y[i] over its elements; y null: of x[i]
__global__ void __launch_bounds__(kOptimizerThreads) partial_sum_kernel(const float* __restrict__ x,
                                                                        const float* __restrict__ y,
                                                                        std::int64_t num_elems,
                                                                        double* __restrict__ sums) {
    DCP_SHARED(double, scratch);
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kElemsASum;
    const std::int64_t end = min(begin + kElemsASum, num_elems);
    double sum = 0.0;
    for (std::int64_t i = begin + thread_index(); i < end; i += kOptimizerThreads) {
        const auto a = static_cast<double>(x[i]);
        sum += y != nullptr ? a * static_cast<double>(y[i]) : a;
    }
    sum = block_sum_double(sum, scratch);
    if (thread_index() == 0) {
        sums[blockIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(kOptimizerThreads)
    total_kernel(const double* __restrict__ sums, std::int64_t num_sums, double* __restrict__ out) {
    DCP_SHARED(double, scratch);
    double sum = 0.0;
    for (std::int64_t i = thread_index(); i < num_sums; i += kOptimizerThreads) {
        sum += sums[i];
    }
    sum = block_sum_double(sum, scratch);
    if (thread_index() == 0) {
        out[0] = sum;
    }
}

void sum_in_blocks(Queue& queue,
                   const char* name,
                   const ConstTensor& x,
                   const float* y,
                   const Tensor& out,
                   const Tensor& workspace) {
    constexpr std::size_t kScratchBytes = kOptimizerWarps * sizeof(double);
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const std::int64_t num_sums = (x.num_elems() + kElemsASum - 1) / kElemsASum;
    auto* const sums = static_cast<double*>(workspace.data());
    if (num_sums > 0) {
        DCP_LAUNCH(partial_sum_kernel, static_cast<unsigned>(num_sums), kOptimizerThreads,
                   kScratchBytes, stream, x.as<float>(), y, x.num_elems(), sums);
        dcp::cuda::check_launch(name, stream);
    }
    DCP_LAUNCH(total_kernel, 1, kOptimizerThreads, kScratchBytes, stream, sums, num_sums,
               static_cast<double*>(out.data()));
    dcp::cuda::check_launch(name, stream);
}

// Columns of bytes set to 0; rows may be strided.
__global__ void __launch_bounds__(kOptimizerThreads) zero_rows_kernel(unsigned char* data,
                                                                      std::int64_t stride_bytes,
                                                                      std::int64_t row_bytes,
                                                                      std::int64_t num_rows) {
    const std::int64_t i =
        static_cast<std::int64_t>(blockIdx.x) * kOptimizerThreads + thread_index();
    if (i < num_rows * row_bytes) {
        data[i / row_bytes * stride_bytes + i % row_bytes] = 0;
    }
}

void launch_adamw(Queue& queue, const AdamW& args, bf16* cast) {
    const std::int64_t elems = args.parameters.num_elems();
    if (elems == 0) {
        return;
    }
    const auto step = static_cast<double>(args.step);
    const double bias1 = 1 - std::pow(args.beta1, step);
    const double bias2 = 1 - std::pow(args.beta2, step);
    const AdamWArgs adamw{.p = args.parameters.as<float>(),
                          .g = args.gradients.as<float>(),
                          .m = args.first_moments.as<float>(),
                          .v = args.second_moments.as<float>(),
                          .cast = cast,
                          .num_elems = elems,
                          .scale = static_cast<float>(args.gradient_scale),
                          .beta1 = static_cast<float>(args.beta1),
                          .beta2 = static_cast<float>(args.beta2),
                          .rest1 = static_cast<float>(1 - args.beta1),
                          .rest2 = static_cast<float>(1 - args.beta2),
                          .rate = static_cast<float>(args.learning_rate / bias1),
                          .inverse_bias2 = static_cast<float>(1 / bias2),
                          .epsilon = static_cast<float>(args.epsilon),
                          .decay = static_cast<float>(args.learning_rate * args.decay)};
    constexpr std::int64_t kElemsABlock = kOptimizerThreads * kVector;
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(adamw_kernel, static_cast<unsigned>((elems + kElemsABlock - 1) / kElemsABlock),
               kOptimizerThreads, 0, stream, adamw);
    dcp::cuda::check_launch("adamw", stream);
}

}  // namespace

void adamw(Queue& queue, const AdamW& args) {
    launch_adamw(queue, args, nullptr);
}

void adamw_and_cast(Queue& queue, const AdamW& args, Tensor cast) {
    if (cast.dtype() != DType::kBFloat16 || cast.num_elems() != args.parameters.num_elems() ||
        !cast.is_contiguous()) {
        throw ShapeError("adamw_and_cast: cast must be contiguous bf16, as long as parameters");
    }
    launch_adamw(queue, args, static_cast<bf16*>(cast.data()));
}

void sum_of_squares(Queue& queue, ConstTensor x, Tensor out, Tensor workspace) {
    sum_in_blocks(queue, "sum_of_squares", x, x.as<float>(), out, workspace);
}

void weighted_sum(Queue& queue, ConstTensor x, ConstTensor weights, Tensor out, Tensor workspace) {
    sum_in_blocks(queue, "weighted_sum", x, weights ? weights.as<float>() : nullptr, out,
                  workspace);
}

void fill_zero(Queue& queue, Tensor x) {
    if (x.num_elems() == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    if (x.is_contiguous()) {
        dcp::cuda::check(
            cudaMemsetAsync(x.data(), 0, static_cast<std::size_t>(x.num_bytes()), stream),
            "cudaMemsetAsync");
        return;
    }
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(x.dtype()));
    const std::int64_t row_bytes = x.shape().row_elems() * element_bytes;
    const std::int64_t blocks = (x.dim(0) * row_bytes + kOptimizerThreads - 1) / kOptimizerThreads;
    DCP_LAUNCH(zero_rows_kernel, static_cast<unsigned>(blocks), kOptimizerThreads, 0, stream,
               static_cast<unsigned char*>(x.data()), x.row_stride() * element_bytes, row_bytes,
               x.dim(0));
    dcp::cuda::check_launch("fill_zero", stream);
}

}  // namespace dcp::kernels::cuda
