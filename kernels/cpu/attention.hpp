// The CPU backend of kernels/attention.hpp: the same functions, arguments already checked.
//
// Every product of blocks goes through BlockProducts (attention_products.hpp); `products` may name
// the implementation, null means the best one for this processor.
#pragma once

#include <cstddef>

#include "core/base/queue.hpp"
#include "kernels/attention.hpp"

namespace dcp::kernels::cpu {

class BlockProducts;

void attention_forward(Queue& queue,
                       const AttentionForward& args,
                       const BlockProducts* products = nullptr);
void attention_backward(Queue& queue,
                        const AttentionBackward& args,
                        const BlockProducts* products = nullptr);
std::size_t attention_forward_workspace_bytes(const Queue& queue,
                                              const AttentionSizes& sizes,
                                              const BlockProducts* products = nullptr);
std::size_t attention_backward_workspace_bytes(const Queue& queue,
                                               const AttentionSizes& sizes,
                                               const BlockProducts* products = nullptr);
void attention_prepare(const AttentionSizes& sizes);

}  // namespace dcp::kernels::cpu
