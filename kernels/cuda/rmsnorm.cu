// RMSNorm forward and backward, the backward pass fused with the residual (kernels/rmsnorm.hpp).
//
//   y = x r w,  r = 1 / sqrt(mean x^2 + epsilon)
//   d_x = residual + r (g - x r^2 mean(g x)),  g = d_y w;   d_w = sum over tokens of d_y x r
//
// Shapes: x, y, d_y, residual, d_x [T, C] of either type, C up to 16384; w, d_w [C]; r [T].
// Threads: forward one block a token; backward one block for some tokens one after the other. A
// thread keeps its vectors of eight elements of the row in registers, so that the row is read once
// (backward beyond 8192 columns: twice, the second time from cache).
// d_w: every thread adds up its own columns over the block's tokens, the blocks' sums are added by
// column_sums.cu. No atomics: the same bits every time.
// Memory a token: forward x and y once; backward d_y, x, residual and d_x once.
#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/column_sums.hpp"
#include "kernels/cuda/norm_blocks.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/row_shape.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kScratchBytes = kWarpThreads * static_cast<int>(sizeof(float));

struct ForwardArgs {
    Rows x;
    const float* weight = nullptr;
    Target y;
    float* inverse_rms = nullptr;
    int columns = 0;
    float epsilon = 0;
    bool has_statistics = false;  // inverse_rms is read, not written
};

template <int kVectors>
__global__ void __launch_bounds__(kMaxRowThreads) rmsnorm_forward_kernel(const ForwardArgs args) {
    DCP_SHARED(float, scratch);
    const std::int64_t row = blockIdx.x;
    const int stride = static_cast<int>(blockDim.x) * kVector;
    float x[kVectors][kVector];
    float sum[1] = {0.0F};
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        load_vector(args.x, row, j * stride + thread_index() * kVector, args.columns, x[j]);
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            sum[0] = fmaf(x[j][i], x[j][i], sum[0]);
        }
    }
    float inverse = 0.0F;
    if (args.has_statistics) {
        inverse = args.inverse_rms[row];
    } else {
        block_sum(sum, scratch);
        inverse = 1.0F / sqrtf(sum[0] / static_cast<float>(args.columns) + args.epsilon);
        if (thread_index() == 0) {
            args.inverse_rms[row] = inverse;
        }
    }
    const Rows weight{args.weight, 0, false};
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const int column = j * stride + thread_index() * kVector;
        float w[kVector];
        load_vector(weight, 0, column, args.columns, w);
#pragma unroll
        for (int i = 0; i < kVector; i++) {
            x[j][i] *= inverse * w[i];
        }
        store_vector(args.y, row, column, args.columns, x[j]);
    }
}

struct BackwardArgs {
    Rows d_y;
    Rows x;
    const float* weight = nullptr;
    const float* inverse_rms = nullptr;
    Rows residual;  // data may be null
    Target d_x;
    float* partial_BC = nullptr;  // d_w of the blocks
    std::int64_t num_rows = 0;
    std::int64_t rows_per_block = 0;
    int columns = 0;
};

template <int kVectors>
__global__ void __launch_bounds__(kMaxRowThreads) rmsnorm_backward_kernel(const BackwardArgs args) {
    DCP_SHARED(float, scratch);
    const int stride = static_cast<int>(blockDim.x) * kVector;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * args.rows_per_block;
    const std::int64_t end = min(begin + args.rows_per_block, args.num_rows);
    const Rows weight{args.weight, 0, false};
    float d_weight[kVectors][kVector] = {};
    // Rows of more than two vectors a thread do not fit in the registers beside the sums: they are
    // read again.
    constexpr bool kKeepsRow = kVectors <= 2;
    for (std::int64_t row = begin; row < end; row++) {
        const float inverse = args.inverse_rms[row];
        float x[kKeepsRow ? kVectors : 1][kVector];
        float g[kKeepsRow ? kVectors : 1][kVector];  // d_y until it is multiplied by the weight
        float w[kVector];
        const auto load = [&](int slot, int column) {
            load_vector(args.x, row, column, args.columns, x[slot]);
            load_vector(args.d_y, row, column, args.columns, g[slot]);
            load_vector(weight, 0, column, args.columns, w);
        };
        float sum[1] = {0.0F};
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
            const int slot = kKeepsRow ? j : 0;
            load(slot, j * stride + thread_index() * kVector);
#pragma unroll
            for (int i = 0; i < kVector; i++) {
                d_weight[j][i] = fmaf(g[slot][i], x[slot][i] * inverse, d_weight[j][i]);
                g[slot][i] *= w[i];
                sum[0] = fmaf(g[slot][i], x[slot][i], sum[0]);
            }
        }
        block_sum(sum, scratch);
        const float factor = sum[0] / static_cast<float>(args.columns) * inverse * inverse;
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
                d_x[i] += inverse * (g[slot][i] - x[slot][i] * factor);
            }
            store_vector(args.d_x, row, column, args.columns, d_x);
        }
    }
    const Target partial{args.partial_BC, args.columns, false, false};
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        store_vector(partial, blockIdx.x, j * stride + thread_index() * kVector, args.columns,
                     d_weight[j]);
    }
}

void forward_rows(Queue& queue, const RmsNormForward& args, bool has_statistics) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    if (T == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const RowShape shape = row_shape("rmsnorm_forward", C);
    const ForwardArgs forward{.x = rows_of(args.x_TC),
                              .weight = args.weight_C.as<float>(),
                              .y = target_of(args.y_TC),
                              .inverse_rms = args.inverse_rms_T.as<float>(),
                              .columns = static_cast<int>(C),
                              .epsilon = args.epsilon,
                              .has_statistics = has_statistics};
    for_vectors(shape, [&]<int kVectors>() {
        DCP_LAUNCH(rmsnorm_forward_kernel<kVectors>, static_cast<unsigned>(T), shape.threads,
                   kScratchBytes, stream, forward);
        dcp::cuda::check_launch("rmsnorm_forward", stream);
    });
}

}  // namespace

void rmsnorm_forward(Queue& queue, const RmsNormForward& args) {
    forward_rows(queue, args, false);
}

void rmsnorm_apply(Queue& queue, const RmsNormForward& args) {
    forward_rows(queue, args, true);
}

void rmsnorm_backward(Queue& queue, const RmsNormBackward& args) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const RowShape shape = row_shape("rmsnorm_backward", C);
    const std::int64_t blocks = C == 0 ? 0 : norm_blocks(T);
    auto* const partial = static_cast<float*>(args.workspace.data());
    if (blocks > 0) {
        const BackwardArgs backward{.d_y = rows_of(args.d_y_TC),
                                    .x = rows_of(args.x_TC),
                                    .weight = args.weight_C.as<float>(),
                                    .inverse_rms = args.inverse_rms_T.as<float>(),
                                    .residual = rows_of(args.residual_TC),
                                    .d_x = target_of(args.d_x_TC),
                                    .partial_BC = partial,
                                    .num_rows = T,
                                    .rows_per_block = (T + blocks - 1) / blocks,
                                    .columns = static_cast<int>(C)};
        for_vectors(shape, [&]<int kVectors>() {
            DCP_LAUNCH(rmsnorm_backward_kernel<kVectors>, static_cast<unsigned>(blocks),
                       shape.threads, kScratchBytes, stream, backward);
            dcp::cuda::check_launch("rmsnorm_backward", stream);
        });
    }
    launch_column_sums(stream, partial, blocks, C, args.d_weight_C.as<float>(), args.d_weight_mode);
}

}  // namespace dcp::kernels::cuda
