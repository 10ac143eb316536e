#include "kernels/head_loss.hpp"

#include <string_view>

#include "kernels/check.hpp"
#include "kernels/cpu/linear.hpp"
#include "kernels/cuda/linear.hpp"
#include "kernels/linear_checks.hpp"

namespace dcp::kernels {

namespace {

void check_gradients(const HeadLoss& args, std::int64_t T) {
    const std::int64_t C = args.weight.K;
    const bool is_layernorm = args.input.kind == InputKind::kLayerNorm;
    check_tensor("head_loss: d_x_TC", args.d_x_TC, {T, C}, {args.input.x.dtype()});
    check_tensor("head_loss: d_w_VC", args.d_w_VC, {args.weight.N, C}, {DType::kFloat32});
    check_contiguous("head_loss: d_w_VC", args.d_w_VC);
    check_tensor("head_loss: weights_T", args.weights_T, {T}, {DType::kFloat32});
    if (is_layernorm || args.input.kind == InputKind::kRmsNorm) {
        check_tensor("head_loss: d_norm_weight_C", args.d_norm_weight_C, {C}, {DType::kFloat32});
    }
    if (is_layernorm) {
        check_tensor("head_loss: d_norm_bias_C", args.d_norm_bias_C, {C}, {DType::kFloat32});
    }
}

}  // namespace

void head_loss(Queue& queue, const HeadLoss& args) {
    constexpr std::string_view kOp = "head_loss";
    const LinearWeight& weight = args.weight;
    check_linear_weight(queue, kOp, weight);
    check(args.input.x.shape().num_dims() == 2, kOp, "needs x of two dimensions");
    const std::int64_t T = args.input.x.dim(0);
    check(args.input.kind == InputKind::kPlain || args.input.kind == InputKind::kRmsNorm ||
              args.input.kind == InputKind::kLayerNorm,
          kOp, "takes a plain or a normed input");
    check_linear_input(kOp, args.input, weight.dtype, T, weight.K);
    check_tensor("head_loss: targets_T", args.targets_T, {T}, {DType::kInt32});
    check_tensor("head_loss: loss_T", args.loss_T, {T}, {DType::kFloat32});
    const bool trains = static_cast<bool>(args.d_x_TC) || static_cast<bool>(args.d_w_VC);
    if (trains) {
        check_gradients(args, T);
    }
    check_workspace(kOp, args.workspace,
                    head_loss_workspace_bytes(queue, weight.dtype, T, weight.N, weight.K));
    // Logits, and in training the gradients of x and of the weight.
    const double products = trains ? 3.0 : 1.0;
    const OpTimer timer(queue, kOp, products * linear_flops(T, weight.N, weight.K));
    if (queue.device() == DeviceKind::kCuda) {
        cuda::head_loss(queue, args);
    } else {
        cpu::head_loss(queue, args);
    }
}

std::size_t head_loss_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t V, std::int64_t C) {
    // Refuses what no product can be made for.
    static_cast<void>(linear_prepared_bytes(queue, dtype, V, C));
    return queue.device() == DeviceKind::kCuda
               ? cuda::head_loss_workspace_bytes(dtype, T, V, C)
               : cpu::head_loss_workspace_bytes(queue, dtype, T, V, C);
}

}  // namespace dcp::kernels
