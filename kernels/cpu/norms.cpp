// RMSNorm and LayerNorm over blocks of rows in parallel. The gradients of weight and bias are sums
// over rows: each block sums its own rows into a row of the workspace, and these rows are added in
// the order of the blocks. The blocks depend on T alone.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

namespace {

constexpr std::int64_t kMinBlockRows = 32;
constexpr std::int64_t kMaxBlocks = 128;

std::int64_t block_rows(std::int64_t T) {
    return std::max(kMinBlockRows, ceil_div(T, kMaxBlocks));
}

// sums_C (+)= the rows of partial_BC, in order. Columns are independent of each other.
void add_partial_sums(const Queue& queue, ConstTensor partial_BC, Tensor sums_C, GradMode mode) {
    constexpr std::int64_t kColumns = 512;
    const std::int64_t C = sums_C.dim(0);
    const Tensor sums = sums_C.reshaped({1, C});
    for_pieces(queue, C, kColumns, [&](std::int64_t begin, std::int64_t count) {
        const Tensor total = sums.columns(begin, count);
        if (mode == GradMode::kOverwrite) {
            std::fill_n(total.as<float>(), count, 0.0F);
        }
        for (std::int64_t block = 0; block < partial_BC.dim(0); ++block) {
            add_rows(total, partial_BC.rows(block, 1).columns(begin, count), total);
        }
    });
}

// The workspace as [blocks, C] sums, after the first `skipped` of such tensors.
Tensor partial_sums(Tensor workspace, std::int64_t T, std::int64_t C, std::int64_t skipped) {
    const std::int64_t blocks = ceil_div(T, block_rows(T));
    auto* bytes = static_cast<std::byte*>(workspace.data());
    return {bytes + skipped * blocks * C * 4, DType::kFloat32, Shape{blocks, C}};
}

}  // namespace

std::size_t partial_sums_bytes(std::int64_t T, std::int64_t C) {
    return static_cast<std::size_t>(ceil_div(T, block_rows(T)) * C * 4);
}

void rmsnorm_forward(const Queue& queue, const RmsNormForward& args) {
    const std::int64_t piece = rows_per_piece(args.x_TC.dim(1));
    auto* inverse_rms = args.inverse_rms_T.as<float>();
    for_pieces(queue, args.x_TC.dim(0), piece, [&](std::int64_t begin, std::int64_t count) {
        rmsnorm_rows_forward(args.x_TC.rows(begin, count), args.weight_C, args.epsilon,
                             args.y_TC.rows(begin, count), inverse_rms + begin);
    });
}

void rmsnorm_backward(const Queue& queue, const RmsNormBackward& args) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    const auto* inverse_rms = args.inverse_rms_T.as<float>();
    const Tensor partial_BC = partial_sums(args.workspace, T, C, 0);
    for_pieces(queue, T, block_rows(T), [&](std::int64_t begin, std::int64_t count) {
        float* d_weight = partial_BC.as<float>() + begin / block_rows(T) * C;
        std::fill_n(d_weight, C, 0.0F);
        const ConstTensor residual =
            args.residual_TC ? args.residual_TC.rows(begin, count) : ConstTensor();
        rmsnorm_rows_backward(args.d_y_TC.rows(begin, count), args.x_TC.rows(begin, count),
                              args.weight_C, inverse_rms + begin, residual,
                              args.d_x_TC.rows(begin, count), d_weight);
    });
    add_partial_sums(queue, partial_BC, args.d_weight_C, args.d_weight_mode);
}

void layernorm_forward(const Queue& queue, const LayerNormForward& args) {
    const std::int64_t piece = rows_per_piece(args.x_TC.dim(1));
    auto* mean = args.mean_T.as<float>();
    auto* inverse_std = args.inverse_std_T.as<float>();
    for_pieces(queue, args.x_TC.dim(0), piece, [&](std::int64_t begin, std::int64_t count) {
        layernorm_rows_forward(args.x_TC.rows(begin, count), args.weight_C, args.bias_C,
                               args.epsilon, args.y_TC.rows(begin, count), mean + begin,
                               inverse_std + begin);
    });
}

void layernorm_backward(const Queue& queue, const LayerNormBackward& args) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    const auto* mean = args.mean_T.as<float>();
    const auto* inverse_std = args.inverse_std_T.as<float>();
    const Tensor weight_BC = partial_sums(args.workspace, T, C, 0);
    const Tensor bias_BC = partial_sums(args.workspace, T, C, 1);
    for_pieces(queue, T, block_rows(T), [&](std::int64_t begin, std::int64_t count) {
        float* d_weight = weight_BC.as<float>() + begin / block_rows(T) * C;
        float* d_bias = bias_BC.as<float>() + begin / block_rows(T) * C;
        std::fill_n(d_weight, C, 0.0F);
        std::fill_n(d_bias, C, 0.0F);
        const ConstTensor residual =
            args.residual_TC ? args.residual_TC.rows(begin, count) : ConstTensor();
        layernorm_rows_backward(args.d_y_TC.rows(begin, count), args.x_TC.rows(begin, count),
                                args.weight_C, mean + begin, inverse_std + begin, residual,
                                args.d_x_TC.rows(begin, count), d_weight, d_bias);
    });
    add_partial_sums(queue, weight_BC, args.d_weight_C, args.d_weight_mode);
    add_partial_sums(queue, bias_BC, args.d_bias_C, args.d_weight_mode);
}

}  // namespace dcp::kernels::cpu
