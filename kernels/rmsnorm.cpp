#include "kernels/rmsnorm.hpp"

#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/norm_blocks.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

void rmsnorm_forward(Queue& queue, const RmsNormForward& args) {
    check(args.x_TC.shape().num_dims() == 2, "rmsnorm_forward: x_TC", "must have two dimensions");
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    check_tensor("rmsnorm_forward: x_TC", args.x_TC, {T, C}, kStored);
    check_tensor("rmsnorm_forward: weight_C", args.weight_C, {C}, kFloat);
    check_tensor("rmsnorm_forward: y_TC", args.y_TC, {T, C}, kStored);
    check_tensor("rmsnorm_forward: inverse_rms_T", args.inverse_rms_T, {T}, kFloat);
    check_contiguous("rmsnorm_forward: weight_C", args.weight_C);
    check_contiguous("rmsnorm_forward: inverse_rms_T", args.inverse_rms_T);
    const OpTimer timer(queue, "rmsnorm_forward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::rmsnorm_forward(queue, args);
    } else {
        cpu::rmsnorm_forward(queue, args);
    }
}

void rmsnorm_backward(Queue& queue, const RmsNormBackward& args) {
    check(args.x_TC.shape().num_dims() == 2, "rmsnorm_backward: x_TC", "must have two dimensions");
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    check_tensor("rmsnorm_backward: d_y_TC", args.d_y_TC, {T, C}, kStored);
    check_tensor("rmsnorm_backward: x_TC", args.x_TC, {T, C}, kStored);
    check_tensor("rmsnorm_backward: weight_C", args.weight_C, {C}, kFloat);
    check_tensor("rmsnorm_backward: inverse_rms_T", args.inverse_rms_T, {T}, kFloat);
    check_optional("rmsnorm_backward: residual_TC", args.residual_TC, {T, C}, kStored);
    check_tensor("rmsnorm_backward: d_x_TC", args.d_x_TC, {T, C}, kStored);
    check_tensor("rmsnorm_backward: d_weight_C", args.d_weight_C, {C}, kFloat);
    check_contiguous("rmsnorm_backward: weight_C", args.weight_C);
    check_contiguous("rmsnorm_backward: inverse_rms_T", args.inverse_rms_T);
    check_contiguous("rmsnorm_backward: d_weight_C", args.d_weight_C);
    check_workspace("rmsnorm_backward", args.workspace, rmsnorm_backward_workspace_bytes(T, C));
    const OpTimer timer(queue, "rmsnorm_backward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::rmsnorm_backward(queue, args);
    } else {
        cpu::rmsnorm_backward(queue, args);
    }
}

std::size_t rmsnorm_backward_workspace_bytes(std::int64_t T, std::int64_t C) {
    return std::max(cpu::partial_sums_bytes(T, C), cuda::norm_partials_bytes(T, C));
}

}  // namespace dcp::kernels
