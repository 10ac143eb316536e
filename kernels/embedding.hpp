// Token embedding: a row of the table for every token.
//
//     x[t,:] = table[token[t],:]              d_table[v,:] += sum over the t with token[t] = v, in
//     order of t, of d_x[t,:]
//
// The table and its gradient are fp32, x and d_x fp32 or bf16. The backward sum has one order
// whatever the number of threads. Tokens are checked when data is read, not here: each must be in
// [0, V).
#pragma once

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels {

struct EmbeddingForward {
    ConstTensor tokens_T;  // int32
    ConstTensor table_VC;
    Tensor x_TC;
};
void embedding_forward(Queue& queue, const EmbeddingForward& args);

struct EmbeddingBackward {
    ConstTensor tokens_T;
    ConstTensor d_x_TC;
    Tensor d_table_VC;
    GradMode mode = GradMode::kAccumulate;
};
void embedding_backward(Queue& queue, const EmbeddingBackward& args);

}  // namespace dcp::kernels
