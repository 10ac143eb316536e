// LayerNorm forward and backward, the backward pass fused with the residual
// (kernels/layernorm.hpp).
//
//   y = n w + b,  n = (x - mean) r,  r = 1 / sqrt(variance + epsilon)
//   d_x = residual + r (g - mean(g) - n mean(g n)),  g = d_y w
//   d_w = sum over tokens of d_y n,  d_b = sum over tokens of d_y
//
// Shapes: x, y, d_y, residual, d_x [T, C] of either type, C up to 16384; w, b, d_w, d_b [C]; mean,
// r [T]. Threads and order of the sums as in rmsnorm.cu: the row stays in registers, so the
// variance is the mean of squared deviations without a second read. Memory a token: forward x and y
// once; backward d_y, x, residual and d_x once. Deterministic.
#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/norm_blocks.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/row_shape.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kSums = 2;  // at most, of one block_sum
constexpr int kScratchBytes = kSums * kWarpThreads * static_cast<int>(sizeof(float));

struct ForwardArgs {
    Rows x;
    const float* weight = nullptr;
    const float* bias = nullptr;
    Target y;
    float* mean = nullptr;
    float* inverse_std = nullptr;
    int columns = 0;
    float epsilon = 0;
    bool has_statistics = false;  // mean and inverse_std are read, not written
};

template <int kVectors>
__global__ void __launch_bounds__(kMaxRowThreads) layernorm_forward_kernel(const ForwardArgs args) {
    DCP_SHARED(float, scratch);
    const std::int64_t row = blockIdx.x;
    const int stride = static_cast<int>(blockDim.x) * kVector;
    const auto count = static_cast<float>(args.columns);
    float x[kVectors][kVector];
    float sum[1] = {0.0F};
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        load_vector(args.x, row, j * stride + thread_index() * kVector, args.columns, x[j]);
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            sum[0] += x[j][i];
        }
    }
    if (!args.has_statistics) {
        block_sum(sum, scratch);
    }
    const float mean = args.has_statistics ? args.mean[row] : sum[0] / count;
    sum[0] = 0.0F;
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const int column = j * stride + thread_index() * kVector;
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            x[j][i] -= mean;
            if (column + i < args.columns) {
                sum[0] = fmaf(x[j][i], x[j][i], sum[0]);
            }
        }
    }
    float inverse = 0.0F;
    if (args.has_statistics) {
        inverse = args.inverse_std[row];
    } else {
        block_sum(sum, scratch);
        inverse = 1.0F / sqrtf(sum[0] / count + args.epsilon);
        if (thread_index() == 0) {
            args.mean[row] = mean;
            args.inverse_std[row] = inverse;
        }
    }
    const Rows weight{args.weight, 0, false};
    const Rows bias{args.bias, 0, false};
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const int column = j * stride + thread_index() * kVector;
        float w[kVector];
        float b[kVector];
        load_vector(weight, 0, column, args.columns, w);
        load_vector(bias, 0, column, args.columns, b);
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            x[j][i] = fmaf(x[j][i] * inverse, w[i], b[i]);
        }
        store_vector(args.y, row, column, args.columns, x[j]);
    }
}

struct BackwardArgs {
    Rows d_y;
    Rows x;
    const float* weight = nullptr;
    const float* mean = nullptr;
    const float* inverse_std = nullptr;
    Rows residual;  // data may be null
    Target d_x;
    float* weight_partial_BC = nullptr;  // d_w and d_b of the blocks
    float* bias_partial_BC = nullptr;
    std::int64_t num_rows = 0;
    std::int64_t rows_per_block = 0;
    int columns = 0;
};

template <int kVectors>
__global__ void __launch_bounds__(kMaxRowThreads)
    layernorm_backward_kernel(const BackwardArgs args) {
    DCP_SHARED(float, scratch);
    const int stride = static_cast<int>(blockDim.x) * kVector;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * args.rows_per_block;
    const std::int64_t end = min(begin + args.rows_per_block, args.num_rows);
    const Rows weight{args.weight, 0, false};
    float d_weight[kVectors][kVector] = {};
    float d_bias[kVectors][kVector] = {};
    // Rows of more than two vectors a thread do not fit in the registers beside the two sums: they
    // are read again.
    constexpr bool kKeepsRow = kVectors <= 2;
    for (std::int64_t row = begin; row < end; row++) {
        const float mean = args.mean[row];
        const float inverse = args.inverse_std[row];
        float n[kKeepsRow ? kVectors : 1][kVector];
        float g[kKeepsRow ? kVectors : 1][kVector];  // d_y until it is multiplied by the weight
        float w[kVector];
        const auto load = [&](int slot, int column) {
            load_vector(args.x, row, column, args.columns, n[slot]);
            load_vector(args.d_y, row, column, args.columns, g[slot]);
            load_vector(weight, 0, column, args.columns, w);
#pragma unroll
            for (int i = 0; i < kVector; i++) {
                n[slot][i] = (n[slot][i] - mean) * inverse;
            }
        };
        float sums[2] = {0.0F, 0.0F};  // of g and of g n
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
            const int slot = kKeepsRow ? j : 0;
            load(slot, j * stride + thread_index() * kVector);
#pragma unroll
            for (int i = 0; i < kVector; i++) {
                d_weight[j][i] = fmaf(g[slot][i], n[slot][i], d_weight[j][i]);
                d_bias[j][i] += g[slot][i];
                g[slot][i] *= w[i];  // 0 past the end of the row
                sums[0] += g[slot][i];
                sums[1] = fmaf(g[slot][i], n[slot][i], sums[1]);
            }
        }
        block_sum(sums, scratch);
        const float mean_g = sums[0] / static_cast<float>(args.columns);
        const float mean_gn = sums[1] / static_cast<float>(args.columns);
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
            const int slot = kKeepsRow ? j : 0;
            const int column = j * stride + thread_index() * kVector;
            if (!kKeepsRow) {
                load(slot, column);
#pragma unroll
                for (int i = 0; i < kVector; i++) {
                    g[slot][i] *= w[i];
                }
            }
            float d_x[kVector] = {};
            if (args.residual.data != nullptr) {
                load_vector(args.residual, row, column, args.columns, d_x);
            }
#pragma unroll
            for (int i = 0; i < kVector; i++) {
                d_x[i] += inverse * (g[slot][i] - mean_g - n[slot][i] * mean_gn);
            }
            store_vector(args.d_x, row, column, args.columns, d_x);
        }
    }
    const Target weight_partial{args.weight_partial_BC, args.columns, false, false};
    const Target bias_partial{args.bias_partial_BC, args.columns, false, false};
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const int column = j * stride + thread_index() * kVector;
        store_vector(weight_partial, blockIdx.x, column, args.columns, d_weight[j]);
        store_vector(bias_partial, blockIdx.x, column, args.columns, d_bias[j]);
    }
}

void forward_rows(Queue& queue, const LayerNormForward& args, bool has_statistics) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    if (T == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const RowShape shape = row_shape("layernorm_forward", C);
    const ForwardArgs forward{.x = rows_of(args.x_TC),
                              .weight = args.weight_C.as<float>(),
                              .bias = args.bias_C.as<float>(),
                              .y = target_of(args.y_TC),
                              .mean = args.mean_T.as<float>(),
                              .inverse_std = args.inverse_std_T.as<float>(),
                              .columns = static_cast<int>(C),
                              .epsilon = args.epsilon,
                              .has_statistics = has_statistics};
    for_vectors(shape, [&]<int kVectors>() {
        DCP_LAUNCH(layernorm_forward_kernel<kVectors>, static_cast<unsigned>(T), shape.threads,
                   kScratchBytes, stream, forward);
        dcp::cuda::check_launch("layernorm_forward", stream);
    });
}

}  // namespace

void layernorm_forward(Queue& queue, const LayerNormForward& args) {
    forward_rows(queue, args, false);
}

void layernorm_apply(Queue& queue, const LayerNormForward& args) {
    forward_rows(queue, args, true);
}

void layernorm_backward(Queue& queue, const LayerNormBackward& args) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const RowShape shape = row_shape("layernorm_backward", C);
    const std::int64_t blocks = C == 0 ? 0 : norm_blocks(T);
    auto* const weight_partial = static_cast<float*>(args.workspace.data());
    float* const bias_partial = weight_partial + blocks * C;
    if (blocks > 0) {
        const BackwardArgs backward{.d_y = rows_of(args.d_y_TC),
                                    .x = rows_of(args.x_TC),
                                    .weight = args.weight_C.as<float>(),
                                    .mean = args.mean_T.as<float>(),
                                    .inverse_std = args.inverse_std_T.as<float>(),
                                    .residual = rows_of(args.residual_TC),
                                    .d_x = target_of(args.d_x_TC),
                                    .weight_partial_BC = weight_partial,
                                    .bias_partial_BC = bias_partial,
                                    .num_rows = T,
                                    .rows_per_block = (T + blocks - 1) / blocks,
                                    .columns = static_cast<int>(C)};
        for_vectors(shape, [&]<int kVectors>() {
            DCP_LAUNCH(layernorm_backward_kernel<kVectors>, static_cast<unsigned>(blocks),
                       shape.threads, kScratchBytes, stream, backward);
            dcp::cuda::check_launch("layernorm_backward", stream);
        });
    }
    launch_column_sums(stream, weight_partial, blocks, C, args.d_weight_C.as<float>(),
                       args.d_weight_mode);
    launch_column_sums(stream, bias_partial, blocks, C, args.d_bias_C.as<float>(),
                       args.d_weight_mode);
}

}  // namespace dcp::kernels::cuda
