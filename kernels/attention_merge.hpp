// Two results of attention over different keys put together, as ring attention needs it. With o1,
// lse1 and o2, lse2 of the same queries (kernels/attention.hpp), and both logarithms natural:
//
//     lse = log(exp(lse1) + exp(lse2))        o = exp(lse1 - lse) o1 + exp(lse2 - lse) o2
//
// since exp(lse_i) is the sum that o_i was divided by. Minus infinity, of a query that saw no key,
// is neutral; where both are, o stays 0.
#pragma once

#include <span>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/attention.hpp"

namespace dcp::kernels {

struct AttentionMerge {
    ConstTensor o_THD;  // fp32 or bf16
    ConstTensor lse_HT;
    Tensor o_sum_THD;   // fp32: updated
    Tensor lse_sum_HT;  // updated
    // Only the queries of these are merged; other rows are neither read nor written.
    std::span<const AttentionSpan> spans;
};
void attention_merge(Queue& queue, const AttentionMerge& args);

}  // namespace dcp::kernels
