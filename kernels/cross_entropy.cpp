#include "kernels/cross_entropy.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

void cross_entropy(Queue& queue, const CrossEntropy& args) {
    check(args.logits_TV.shape().num_dims() == 2, "cross_entropy: logits_TV",
          "must have two dimensions");
    const std::int64_t T = args.logits_TV.dim(0);
    const std::int64_t V = args.logits_TV.dim(1);
    check(V > 0, "cross_entropy: logits_TV", "must have at least one column");
    check_tensor("cross_entropy: logits_TV", args.logits_TV, {T, V}, kFloat);
    check_tensor("cross_entropy: targets_T", args.targets_T, {T}, kInteger);
    check_contiguous("cross_entropy: targets_T", args.targets_T);
    check_tensor("cross_entropy: loss_T", args.loss_T, {T}, kFloat);
    check_contiguous("cross_entropy: loss_T", args.loss_T);
    check_optional("cross_entropy: d_logits_TV", args.d_logits_TV, {T, V}, kStored);
    if (args.d_logits_TV) {
        check_tensor("cross_entropy: weights_T", args.weights_T, {T}, kFloat);
        check_contiguous("cross_entropy: weights_T", args.weights_T);
    }
    const OpTimer timer(queue, "cross_entropy");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::cross_entropy(queue, args);
    } else {
        cpu::cross_entropy(queue, args);
    }
}

}  // namespace dcp::kernels
