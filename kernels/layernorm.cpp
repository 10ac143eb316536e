#include "kernels/layernorm.hpp"

#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/norm_blocks.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

namespace {

void check_vector(std::string_view what, const ConstTensor& tensor, std::int64_t elems) {
    check_tensor(what, tensor, {elems}, kFloat);
    check_contiguous(what, tensor);
}

}  // namespace

void layernorm_forward(Queue& queue, const LayerNormForward& args) {
    check(args.x_TC.shape().num_dims() == 2, "layernorm_forward: x_TC", "must have two dimensions");
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    check_tensor("layernorm_forward: x_TC", args.x_TC, {T, C}, kStored);
    check_vector("layernorm_forward: weight_C", args.weight_C, C);
    check_vector("layernorm_forward: bias_C", args.bias_C, C);
    check_tensor("layernorm_forward: y_TC", args.y_TC, {T, C}, kStored);
    check_vector("layernorm_forward: mean_T", args.mean_T, T);
    check_vector("layernorm_forward: inverse_std_T", args.inverse_std_T, T);
    const OpTimer timer(queue, "layernorm_forward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::layernorm_forward(queue, args);
    } else {
        cpu::layernorm_forward(queue, args);
    }
}

void layernorm_backward(Queue& queue, const LayerNormBackward& args) {
    check(args.x_TC.shape().num_dims() == 2, "layernorm_backward: x_TC",
          "must have two dimensions");
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    check_tensor("layernorm_backward: d_y_TC", args.d_y_TC, {T, C}, kStored);
    check_tensor("layernorm_backward: x_TC", args.x_TC, {T, C}, kStored);
    check_vector("layernorm_backward: weight_C", args.weight_C, C);
    check_vector("layernorm_backward: mean_T", args.mean_T, T);
    check_vector("layernorm_backward: inverse_std_T", args.inverse_std_T, T);
    check_optional("layernorm_backward: residual_TC", args.residual_TC, {T, C}, kStored);
    check_tensor("layernorm_backward: d_x_TC", args.d_x_TC, {T, C}, kStored);
    check_vector("layernorm_backward: d_weight_C", args.d_weight_C, C);
    check_vector("layernorm_backward: d_bias_C", args.d_bias_C, C);
    check_workspace("layernorm_backward", args.workspace, layernorm_backward_workspace_bytes(T, C));
    const OpTimer timer(queue, "layernorm_backward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::layernorm_backward(queue, args);
    } else {
        cpu::layernorm_backward(queue, args);
    }
}

std::size_t layernorm_backward_workspace_bytes(std::int64_t T, std::int64_t C) {
    return 2 * std::max(cpu::partial_sums_bytes(T, C), cuda::norm_partials_bytes(T, C));
}

}  // namespace dcp::kernels
