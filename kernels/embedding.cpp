#include "kernels/embedding.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

void embedding_forward(Queue& queue, const EmbeddingForward& args) {
    check(args.x_TC.shape().num_dims() == 2, "embedding_forward: x_TC", "must have two dimensions");
    check(args.table_VC.shape().num_dims() == 2, "embedding_forward: table_VC",
          "must have two dimensions");
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    check_tensor("embedding_forward: tokens_T", args.tokens_T, {T}, kInteger);
    check_contiguous("embedding_forward: tokens_T", args.tokens_T);
    check_tensor("embedding_forward: table_VC", args.table_VC, {args.table_VC.dim(0), C}, kFloat);
    check_tensor("embedding_forward: x_TC", args.x_TC, {T, C}, kStored);
    const OpTimer timer(queue, "embedding_forward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::embedding_forward(queue, args);
    } else {
        cpu::embedding_forward(queue, args);
    }
}

void embedding_backward(Queue& queue, const EmbeddingBackward& args) {
    check(args.d_x_TC.shape().num_dims() == 2, "embedding_backward: d_x_TC",
          "must have two dimensions");
    check(args.d_table_VC.shape().num_dims() == 2, "embedding_backward: d_table_VC",
          "must have two dimensions");
    const std::int64_t T = args.d_x_TC.dim(0);
    const std::int64_t C = args.d_x_TC.dim(1);
    const std::int64_t V = args.d_table_VC.dim(0);
    check_tensor("embedding_backward: tokens_T", args.tokens_T, {T}, kInteger);
    check_contiguous("embedding_backward: tokens_T", args.tokens_T);
    check_tensor("embedding_backward: d_x_TC", args.d_x_TC, {T, C}, kStored);
    check_tensor("embedding_backward: d_table_VC", args.d_table_VC, {V, C}, kFloat);
    const OpTimer timer(queue, "embedding_backward");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::embedding_backward(queue, args);
    } else {
        cpu::embedding_backward(queue, args);
    }
}

}  // namespace dcp::kernels
