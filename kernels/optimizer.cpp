#include "kernels/optimizer.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

namespace {

constexpr auto kBytes = {DType::kUInt8};

void check_flat(std::string_view what, const ConstTensor& tensor, const Shape& shape) {
    check_tensor(what, tensor, shape, kFloat);
    check_contiguous(what, tensor);
}

}  // namespace

void adamw(Queue& queue, const AdamW& args) {
    const Shape& shape = args.parameters.shape();
    check_flat("adamw: parameters", args.parameters, shape);
    check_flat("adamw: gradients", args.gradients, shape);
    check_flat("adamw: first_moments", args.first_moments, shape);
    check_flat("adamw: second_moments", args.second_moments, shape);
    check(args.step >= 1, "adamw: step", "counts from 1");
    const OpTimer timer(queue, "adamw");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::adamw(queue, args);
    } else {
        cpu::adamw(queue, args);
    }
}

void sum_of_squares(Queue& queue, ConstTensor x, Tensor out, Tensor workspace) {
    check_flat("sum_of_squares: x", x, x.shape());
    check_tensor("sum_of_squares: out", out, {8}, kBytes);
    check_workspace("sum_of_squares", workspace, sum_workspace_bytes(x.num_elems()));
    const OpTimer timer(queue, "sum_of_squares");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::sum_of_squares(queue, x, out, workspace);
    } else {
        cpu::sum_of_squares(queue, x, out, workspace);
    }
}

void weighted_sum(Queue& queue, ConstTensor x, ConstTensor weights, Tensor out, Tensor workspace) {
    check_flat("weighted_sum: x", x, x.shape());
    if (weights) {
        check_flat("weighted_sum: weights", weights, x.shape());
    }
    check_tensor("weighted_sum: out", out, {8}, kBytes);
    check_workspace("weighted_sum", workspace, sum_workspace_bytes(x.num_elems()));
    const OpTimer timer(queue, "weighted_sum");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::weighted_sum(queue, x, weights, out, workspace);
    } else {
        cpu::weighted_sum(queue, x, weights, out, workspace);
    }
}

std::size_t sum_workspace_bytes(std::int64_t num_elems) {
    return cpu::sum_workspace_bytes(num_elems);
}

void fill_zero(Queue& queue, Tensor x) {
    check_tensor("fill_zero: x", x, x.shape(),
                 {DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kUInt8});
    const OpTimer timer(queue, "fill_zero");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::fill_zero(queue, x);
    } else {
        cpu::fill_zero(queue, x);
    }
}

}  // namespace dcp::kernels
