#include "kernels/attention_merge.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/exchange_rows.hpp"
#include "kernels/cuda/attention.hpp"

namespace dcp::kernels {

void attention_merge(Queue& queue, const AttentionMerge& args) {
    const Shape& shape = args.o_sum_THD.shape();
    check(shape.num_dims() == 3, "attention_merge: o_sum_THD", "must have three dimensions");
    check_tensor("attention_merge: o_THD", args.o_THD, shape, {DType::kFloat32, DType::kBFloat16});
    check_tensor("attention_merge: o_sum_THD", args.o_sum_THD, shape, {DType::kFloat32});
    const Shape lse_shape{shape[1], shape[0]};
    check_tensor("attention_merge: lse_HT", args.lse_HT, lse_shape, {DType::kFloat32});
    check_tensor("attention_merge: lse_sum_HT", args.lse_sum_HT, lse_shape, {DType::kFloat32});
    for (const AttentionSpan& span : args.spans) {
        check(span.q_begin >= 0 && span.q_count >= 0 && span.q_begin <= shape[0] &&
                  span.q_count <= shape[0] - span.q_begin,
              "attention_merge: spans", "must lie inside the rows of o_THD");
    }
    const OpTimer timer(queue, "attention_merge");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::attention_merge(queue, args);
    } else {
        cpu::attention_merge(queue, args);
    }
}

}  // namespace dcp::kernels
