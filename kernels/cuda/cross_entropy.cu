// Softmax cross-entropy of rows of logits, loss and gradient (kernels/cross_entropy.hpp).
//
//   loss = log(sum_v exp(logit_v)) - logit_target,  d_logit_v = weight (softmax_v - (v == target))
//
// Shapes: logits [T, V] fp32; targets, weights, loss [T]; d_logits [T, V] of either type, may be
// logits. Target -1 masks: loss 0, gradient 0 exactly.
// Threads: one block a token. First pass: every thread keeps a running maximum and sum of
// exponentials of its vectors (as the online softmax of attention), which are then combined in a
// fixed order. Second pass, for the gradient: the thread that reads an element writes it. Memory:
// logits once for the loss, twice with the gradient (the second time mostly from cache up to some
// thousand words), d_logits once. Deterministic.
#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kLossThreads = 256;
constexpr int kLossWarps = kLossThreads / kWarpThreads;
constexpr int kStride = kLossThreads * kVector;

struct LossArgs {
    Rows logits;
    const std::int32_t* targets = nullptr;
    const float* weights = nullptr;
    float* loss = nullptr;
    Target d_logits;  // data may be null
    int columns = 0;
};

// Sum of exp(x - top) over what was seen.
struct Exponentials {
    float top;
    float sum;
};
// What exponentials are relative to. Minus infinity cannot be: with 0 in its place, exp(-infinity)
// is 0 and exp(NaN) NaN, so that a NaN shows in the sum wherever it is.
__device__ __forceinline__ float offset_of(float top) {
    return top == kMinusInfinity ? 0.0F : top;
}
__device__ __forceinline__ Exponentials combine(const Exponentials& a, const Exponentials& b) {
    const float top = fmaxf(a.top, b.top);
    const float offset = offset_of(top);
    // The factor is 0 for a side of forbidden words alone, whose sum is 0 or NaN.
    return {top, a.sum * expf(a.top - offset) + b.sum * expf(b.top - offset)};
}

// Over the whole block; the same bits for every thread. `scratch`: two floats a warp.
__device__ __forceinline__ Exponentials combine_block(Exponentials mine, float* scratch) {
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        const Exponentials other{__shfl_xor_sync(kAllLanes, mine.top, distance),
                                 __shfl_xor_sync(kAllLanes, mine.sum, distance)};
        mine = combine(mine, other);
    }
    if (lane_index() == 0) {
        scratch[2 * warp_index()] = mine.top;
        scratch[2 * warp_index() + 1] = mine.sum;
    }
    __syncthreads();  // those of all warps are there
    Exponentials all{kMinusInfinity, 0.0F};
    for (int warp = 0; warp < kLossWarps; warp++) {
        all = combine(all, {scratch[2 * warp], scratch[2 * warp + 1]});
    }
    return all;
}

__global__ void __launch_bounds__(kLossThreads) cross_entropy_kernel(const LossArgs args) {
    DCP_SHARED(float, scratch);
    const std::int64_t row = blockIdx.x;
    const int target = args.targets[row];
    const bool is_masked = target < 0;
    const bool has_gradient = args.d_logits.data != nullptr;
    float v[kVector];
    Exponentials all{0.0F, 1.0F};
    if (!is_masked) {
        Exponentials mine{kMinusInfinity, 0.0F};
        for (int column = thread_index() * kVector; column < args.columns; column += kStride) {
            load_vector(args.logits, row, column, args.columns, v);
            const int count = min(kVector, args.columns - column);
            float top = mine.top;
#pragma unroll
            for (int i = 0; i < kVector; i++) {
                top = i < count ? fmaxf(top, v[i]) : top;
            }
            const float offset = offset_of(top);
            if (top > mine.top) {
                mine = {top, mine.sum * expf(mine.top - offset)};
            }
#pragma unroll
            for (int i = 0; i < kVector; i++) {
                mine.sum += i < count ? expf(v[i] - offset) : 0.0F;
            }
        }
        all = combine_block(mine, scratch);
    }
    if (thread_index() == 0) {
        const float* const logits =
            static_cast<const float*>(args.logits.data) + row * args.logits.stride;
        args.loss[row] = is_masked ? 0.0F : logf(all.sum) + (all.top - logits[target]);
    }
    if (!has_gradient) {
        return;
    }
    __syncthreads();  // the target's logit has been read: the gradient may take its place
    const float weight = is_masked ? 0.0F : args.weights[row];
    const float scale = weight / all.sum;
    for (int column = thread_index() * kVector; column < args.columns; column += kStride) {
        load_vector(args.logits, row, column, args.columns, v);
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            const float hit = column + i == target ? weight : 0.0F;
            v[i] = is_masked ? 0.0F : expf(v[i] - all.top) * scale - hit;
        }
        store_vector(args.d_logits, row, column, args.columns, v);
    }
}

}  // namespace

void cross_entropy(Queue& queue, const CrossEntropy& args) {
    const std::int64_t T = args.logits_TV.dim(0);
    if (T == 0) {
        return;
    }
    const bool has_gradient = static_cast<bool>(args.d_logits_TV);
    const LossArgs loss{.logits = rows_of(args.logits_TV),
                        .targets = args.targets_T.as<std::int32_t>(),
                        .weights = has_gradient ? args.weights_T.as<float>() : nullptr,
                        .loss = args.loss_T.as<float>(),
                        .d_logits = target_of(args.d_logits_TV),
                        .columns = static_cast<int>(args.logits_TV.dim(1))};
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(cross_entropy_kernel, static_cast<unsigned>(T), kLossThreads,
               2 * kLossWarps * sizeof(float), stream, loss);
    dcp::cuda::check_launch("cross_entropy", stream);
}

}  // namespace dcp::kernels::cuda
