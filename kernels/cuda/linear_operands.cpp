#include "kernels/cuda/linear_operands.hpp"

#include <span>

#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels::cuda {

namespace {

constexpr std::int64_t kPartBytes = 256;
constexpr std::int64_t kAccessBytes = 16;

bool is_operand(const ConstTensor& tensor) {
    if (tensor.dtype() != DType::kBFloat16) {
        return true;
    }
    const auto row_bytes =
        tensor.row_stride() * static_cast<std::int64_t>(size_bytes(tensor.dtype()));
    return reinterpret_cast<std::uintptr_t>(tensor.data()) % kAccessBytes == 0 &&
           (tensor.dim(0) <= 1 || row_bytes % kAccessBytes == 0);
}

}  // namespace

WorkspaceParts::WorkspaceParts(void* begin) : begin_(static_cast<std::byte*>(begin)) {
    const auto address = reinterpret_cast<std::uintptr_t>(begin_);
    if (begin_ != nullptr) {
        begin_ += (kPartBytes - address % kPartBytes) % kPartBytes;
    }
}

void* WorkspaceParts::take_memory(std::int64_t bytes) {
    void* const part = begin_ == nullptr ? nullptr : begin_ + used_;
    used_ += (bytes + kPartBytes - 1) / kPartBytes * kPartBytes;
    return part;
}

Tensor WorkspaceParts::take(DType dtype, std::int64_t rows, std::int64_t columns) {
    const std::int64_t stride = padded_columns(dtype, columns);
    const auto bytes = rows * stride * static_cast<std::int64_t>(size_bytes(dtype));
    return {take_memory(bytes), dtype, Shape{rows, columns}, stride};
}

Tensor WorkspaceParts::take_bytes(std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes);
    return {take_memory(count), DType::kUInt8, Shape{count}};
}

std::size_t WorkspaceParts::needed_bytes() const {
    return static_cast<std::size_t>(used_ + kPartBytes);
}

std::int64_t padded_columns(DType dtype, std::int64_t columns) {
    constexpr std::int64_t kMultiple = 8;
    return dtype == DType::kBFloat16 ? (columns + kMultiple - 1) / kMultiple * kMultiple : columns;
}

ConstTensor weight_matrix(const LinearWeight& weight) {
    return {weight.prepared.data(), weight.dtype, Shape{weight.N, weight.K},
            padded_columns(weight.dtype, weight.K)};
}

ConstTensor as_operand(Queue& queue, const ConstTensor& tensor, const Tensor& room) {
    if (is_operand(tensor)) {
        return tensor;
    }
    sum_rows(queue, {.from = std::span(&tensor, 1), .to = room});
    return room;
}

ConstTensor input_forward(Queue& queue,
                          const LinearInput& input,
                          Statistics statistics,
                          const Tensor& room) {
    const bool writes = statistics == Statistics::kWrite;
    switch (input.kind) {
        case InputKind::kPlain:
            return as_operand(queue, input.x, room);
        case InputKind::kRmsNorm: {
            const RmsNormForward norm{.x_TC = input.x,
                                      .weight_C = input.norm_weight_K,
                                      .y_TC = room,
                                      .inverse_rms_T = input.inverse_rms_T,
                                      .epsilon = input.epsilon};
            writes ? cuda::rmsnorm_forward(queue, norm) : cuda::rmsnorm_apply(queue, norm);
            return room;
        }
        case InputKind::kLayerNorm: {
            const LayerNormForward norm{.x_TC = input.x,
                                        .weight_C = input.norm_weight_K,
                                        .bias_C = input.norm_bias_K,
                                        .y_TC = room,
                                        .mean_T = input.mean_T,
                                        .inverse_std_T = input.inverse_rms_T,
                                        .epsilon = input.epsilon};
            writes ? cuda::layernorm_forward(queue, norm) : cuda::layernorm_apply(queue, norm);
            return room;
        }
        case InputKind::kSwiGlu:
            swiglu_forward(queue, {.gate_up_TF = input.x, .y_TF = room});
            return room;
        case InputKind::kGelu:
            gelu_forward(queue, {.x_TF = input.x, .y_TF = room});
            return room;
    }
    return room;
}

void input_backward(Queue& queue, const LinearInput& input, const InputBackward& args) {
    switch (input.kind) {
        case InputKind::kPlain:
            return;
        case InputKind::kRmsNorm:
            rmsnorm_backward(queue, {.d_y_TC = args.d_f,
                                     .x_TC = input.x,
                                     .weight_C = input.norm_weight_K,
                                     .inverse_rms_T = input.inverse_rms_T,
                                     .residual_TC = args.residual,
                                     .d_x_TC = args.d_x,
                                     .d_weight_C = args.d_norm_weight,
                                     .d_weight_mode = GradMode::kAccumulate,
                                     .workspace = args.partials});
            return;
        case InputKind::kLayerNorm:
            layernorm_backward(queue, {.d_y_TC = args.d_f,
                                       .x_TC = input.x,
                                       .weight_C = input.norm_weight_K,
                                       .mean_T = input.mean_T,
                                       .inverse_std_T = input.inverse_rms_T,
                                       .residual_TC = args.residual,
                                       .d_x_TC = args.d_x,
                                       .d_weight_C = args.d_norm_weight,
                                       .d_bias_C = args.d_norm_bias,
                                       .d_weight_mode = GradMode::kAccumulate,
                                       .workspace = args.partials});
            return;
        case InputKind::kSwiGlu:
            swiglu_backward(queue,
                            {.d_y_TF = args.d_f, .gate_up_TF = input.x, .d_gate_up_TF = args.d_x});
            return;
        case InputKind::kGelu:
            gelu_backward(queue, {.d_y_TF = args.d_f, .x_TF = input.x, .d_x_TF = args.d_x});
            return;
    }
}

}  // namespace dcp::kernels::cuda
