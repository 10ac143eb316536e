// The end of a language model in one operation: final norm, output matrix, softmax cross-entropy,
// and all their gradients. Logits exist for a block of rows at a time and never whole (8192 tokens
// x 128,256 words would be 4 GB); since the weight of every token is known before the forward pass,
// gradients are made while the block's logits are at hand and nothing is computed twice.
//
//     logits[t,:] = f(x)[t,:] W^T        loss[t], d_logits: cross_entropy.hpp        d_x, d_w,
//     d_norm: linear.hpp
#pragma once

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/linear.hpp"

namespace dcp::kernels {

struct HeadLoss {
    LinearInput input;      // statistics tensors are scratch here, but must be given
    LinearWeight weight;    // [V, C]
    ConstTensor targets_T;  // int32, -1 masks
    ConstTensor weights_T;  // fp32
    Tensor loss_T;          // fp32, not weighted, 0 where masked
    // Training only; all null for evaluation.
    Tensor d_x_TC;           // overwritten
    Tensor d_w_VC;           // fp32, accumulated
    Tensor d_norm_weight_C;  // accumulated
    Tensor d_norm_bias_C;    // kLayerNorm: accumulated
    Tensor workspace;        // head_loss_workspace_bytes
};
void head_loss(Queue& queue, const HeadLoss& args);

std::size_t head_loss_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t V, std::int64_t C);

}  // namespace dcp::kernels
