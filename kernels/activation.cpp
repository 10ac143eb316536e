#include "kernels/activation.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

namespace {

// Before the shape is read as [T, columns].
void check_two_dims(std::string_view what, const ConstTensor& tensor) {
    check(tensor.shape().num_dims() == 2, what, "must have two dimensions");
}

}  // namespace

void swiglu_forward(Queue& queue, const SwiGluForward& args) {
    check_two_dims("swiglu_forward: y_TF", args.y_TF);
    const std::int64_t T = args.y_TF.dim(0);
    const std::int64_t F = args.y_TF.dim(1);
    check_tensor("swiglu_forward: gate_up_TF", args.gate_up_TF, {T, 2 * F}, kStored);
    check_tensor("swiglu_forward: y_TF", args.y_TF, {T, F}, kStored);
    const OpTimer timer(queue, "swiglu_forward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::swiglu_forward(queue, args);
    } else {
        cpu::swiglu_forward(queue, args);
    }
}

void swiglu_backward(Queue& queue, const SwiGluBackward& args) {
    check_two_dims("swiglu_backward: d_y_TF", args.d_y_TF);
    const std::int64_t T = args.d_y_TF.dim(0);
    const std::int64_t F = args.d_y_TF.dim(1);
    check_tensor("swiglu_backward: d_y_TF", args.d_y_TF, {T, F}, kStored);
    check_tensor("swiglu_backward: gate_up_TF", args.gate_up_TF, {T, 2 * F}, kStored);
    check_tensor("swiglu_backward: d_gate_up_TF", args.d_gate_up_TF, {T, 2 * F}, kStored);
    const OpTimer timer(queue, "swiglu_backward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::swiglu_backward(queue, args);
    } else {
        cpu::swiglu_backward(queue, args);
    }
}

void gelu_forward(Queue& queue, const GeluForward& args) {
    check_two_dims("gelu_forward: x_TF", args.x_TF);
    check_tensor("gelu_forward: x_TF", args.x_TF, args.x_TF.shape(), kStored);
    check_tensor("gelu_forward: y_TF", args.y_TF, args.x_TF.shape(), kStored);
    const OpTimer timer(queue, "gelu_forward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::gelu_forward(queue, args);
    } else {
        cpu::gelu_forward(queue, args);
    }
}

void gelu_backward(Queue& queue, const GeluBackward& args) {
    check_two_dims("gelu_backward: x_TF", args.x_TF);
    check_tensor("gelu_backward: d_y_TF", args.d_y_TF, args.x_TF.shape(), kStored);
    check_tensor("gelu_backward: x_TF", args.x_TF, args.x_TF.shape(), kStored);
    check_tensor("gelu_backward: d_x_TF", args.d_x_TF, args.x_TF.shape(), kStored);
    const OpTimer timer(queue, "gelu_backward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::gelu_backward(queue, args);
    } else {
        cpu::gelu_backward(queue, args);
    }
}

void add(Queue& queue, const Add& args) {
    check_two_dims("add: y_TC", args.y_TC);
    check_tensor("add: a_TC", args.a_TC, args.y_TC.shape(), kStored);
    check_tensor("add: b_TC", args.b_TC, args.y_TC.shape(), kStored);
    check_tensor("add: y_TC", args.y_TC, args.y_TC.shape(), kStored);
    const OpTimer timer(queue, "add");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::add(queue, args);
    } else {
        cpu::add(queue, args);
    }
}

}  // namespace dcp::kernels
