// Linear layers: what stands in front of the product, the product, what follows. A residual is put
// into the result first and the product added to it, so that their sum is rounded once.
#include "kernels/cuda/linear.hpp"

#include <span>

#include "kernels/cuda/linear_operands.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/norm_blocks.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels::cuda {

namespace {

// The parts of a layer's workspace. Each function uses some of them.
struct LayerParts {
    LayerParts(void* memory, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K)
        : LayerParts(WorkspaceParts(memory), dtype, T, N, K) {}

    Tensor f_TK;    // compute type
    Tensor d_f_TK;  // fp32
    Tensor d_y_TN;  // room for a copy
    Tensor partials;
    std::size_t needed_bytes;

private:
    LayerParts(WorkspaceParts parts, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K)
        : f_TK(parts.take(dtype, T, K)),
          d_f_TK(parts.take(DType::kFloat32, T, K)),
          d_y_TN(parts.take(dtype, T, N)),
          partials(parts.take_bytes(2 * norm_partials_bytes(T, K))),
          needed_bytes(parts.needed_bytes()) {}
};

LayerParts parts_of(const Tensor& workspace, const LinearWeight& weight, std::int64_t T) {
    return {workspace.data(), weight.dtype, T, weight.N, weight.K};
}

// What the product is added to: the residual, copied into the result unless it lies there.
GradMode start_from(Queue& queue, const ConstTensor& residual, const Tensor& result) {
    if (!residual) {
        return GradMode::kOverwrite;
    }
    if (residual.data() != result.data()) {
        sum_rows(queue, {.from = std::span(&residual, 1), .to = result});
    }
    return GradMode::kAccumulate;
}

}  // namespace

std::size_t linear_prepared_bytes(DType dtype, std::int64_t N, std::int64_t K) {
    return static_cast<std::size_t>(N * padded_columns(dtype, K)) * size_bytes(dtype);
}

std::size_t linear_workspace_bytes(DType dtype, std::int64_t T, std::int64_t N, std::int64_t K) {
    return LayerParts(nullptr, dtype, T, N, K).needed_bytes;
}

void linear_prepare(Queue& queue, ConstTensor master_NK, const LinearWeight& weight) {
    const Tensor copy(weight.prepared.data(), weight.dtype, Shape{weight.N, weight.K},
                      padded_columns(weight.dtype, weight.K));
    sum_rows(queue, {.from = std::span(&master_NK, 1), .to = copy});
}

void linear_forward(Queue& queue, const LinearForward& args) {
    const std::int64_t T = args.y_TN.dim(0);
    const LayerParts parts = parts_of(args.workspace, args.weight, T);
    const ConstTensor f = input_forward(queue, args.input, Statistics::kWrite, parts.f_TK);
    const GradMode mode = start_from(queue, args.residual_TN, args.y_TN);
    matmul(queue, {.a = f, .b = weight_matrix(args.weight), .c = args.y_TN, .mode = mode});
    if (args.rope.num_heads > 0) {
        const Shape heads{T, args.rope.num_heads, args.rope.head_dim};
        rope(queue, {.x_THD = {args.y_TN.data(), args.y_TN.dtype(), heads, args.y_TN.row_stride()},
                     .positions_T = args.rope.positions_T,
                     .cos_PD = args.rope.cos_PD,
                     .sin_PD = args.rope.sin_PD});
    }
}

void linear_backward_input(Queue& queue, const LinearBackwardInput& args) {
    const LayerParts parts = parts_of(args.workspace, args.weight, args.d_y_TN.dim(0));
    const ConstTensor d_y = as_operand(queue, args.d_y_TN, parts.d_y_TN);
    Matmul product{
        .a = d_y, .b = weight_matrix(args.weight), .c = parts.d_f_TK, .b_stored = Stored::kPlain};
    if (args.input.kind == InputKind::kPlain) {
        product.mode = start_from(queue, args.residual_TK, args.d_x);
        product.c = args.d_x;
        matmul(queue, product);
        return;
    }
    matmul(queue, product);
    input_backward(queue, args.input,
                   {.d_f = parts.d_f_TK,
                    .residual = args.residual_TK,
                    .d_x = args.d_x,
                    .d_norm_weight = args.d_norm_weight_K,
                    .d_norm_bias = args.d_norm_bias_K,
                    .partials = parts.partials});
}

void linear_backward_weight(Queue& queue, const LinearBackwardWeight& args) {
    const LayerParts parts = parts_of(args.workspace, args.weight, args.d_y_TN.dim(0));
    const ConstTensor d_y = as_operand(queue, args.d_y_TN, parts.d_y_TN);
    const ConstTensor f = input_forward(queue, args.input, Statistics::kRead, parts.f_TK);
    matmul(queue, {.a = d_y,
                   .b = f,
                   .c = args.d_w_NK,
                   .a_stored = Stored::kTransposed,
                   .b_stored = Stored::kPlain,
                   .mode = args.mode});
}

}  // namespace dcp::kernels::cuda
