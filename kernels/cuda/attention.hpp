// The CUDA backend of kernels/attention.hpp and kernels/attention_merge.hpp: the same functions,
// arguments already checked. bf16 on tensor cores, fp32 by FMA, both accumulate in fp32.
//
// What it needs beyond the contract, refused by name (UnsupportedError): head dimensions that are
// multiples of 8 up to 128, rows that start at multiples of 16 bytes, fewer than 2^29 rows a span.
// The work list of a call is copied to the device from host memory: a call may wait for the copies
// before it, never for kernels.
#pragma once

#include <cstddef>

#include "core/base/queue.hpp"
#include "kernels/attention.hpp"
#include "kernels/attention_merge.hpp"

namespace dcp::kernels::cuda {

void attention_forward(Queue& queue, const AttentionForward& args);
void attention_backward(Queue& queue, const AttentionBackward& args);
void attention_merge(Queue& queue, const AttentionMerge& args);
std::size_t attention_forward_workspace_bytes(const AttentionSizes& sizes);
std::size_t attention_backward_workspace_bytes(const AttentionSizes& sizes);

}  // namespace dcp::kernels::cuda
