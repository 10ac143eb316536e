// The CPU side of what ranks do around their exchanges. Contracts: the public headers.
#pragma once

#include "kernels/attention_merge.hpp"
#include "kernels/sum_rows.hpp"

namespace dcp::kernels::cpu {

void sum_rows(const Queue& queue, const SumRows& args);
void attention_merge(const Queue& queue, const AttentionMerge& args);

}  // namespace dcp::kernels::cpu
