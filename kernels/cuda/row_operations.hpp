// The CUDA backend of the row-wise operations: the same functions as in kernels/*.hpp, arguments
// already checked. Each has a source of its own that says how it lies on the threads.
#pragma once

#include "core/base/queue.hpp"
#include "kernels/activation.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layernorm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/rope.hpp"
#include "kernels/sum_rows.hpp"

namespace dcp::kernels::cuda {

void rmsnorm_forward(Queue& queue, const RmsNormForward& args);
// y again from statistics that are there: the same bits as the forward pass.
void rmsnorm_apply(Queue& queue, const RmsNormForward& args);
void rmsnorm_backward(Queue& queue, const RmsNormBackward& args);
void layernorm_forward(Queue& queue, const LayerNormForward& args);
void layernorm_apply(Queue& queue, const LayerNormForward& args);  // likewise
void layernorm_backward(Queue& queue, const LayerNormBackward& args);

void swiglu_forward(Queue& queue, const SwiGluForward& args);
void swiglu_backward(Queue& queue, const SwiGluBackward& args);
void gelu_forward(Queue& queue, const GeluForward& args);
void gelu_backward(Queue& queue, const GeluBackward& args);
void add(Queue& queue, const Add& args);

void rope_fill_table(Queue& queue, const RopeTable& table, double theta);
void rope(Queue& queue, const Rope& args);

void embedding_forward(Queue& queue, const EmbeddingForward& args);
void embedding_backward(Queue& queue, const EmbeddingBackward& args);

void cross_entropy(Queue& queue, const CrossEntropy& args);

void adamw(Queue& queue, const AdamW& args);
// The same, and the new parameters rounded to bf16 into `cast` (contiguous, as many elements), so
// that the copy which products read needs no second pass over the parameters.
void adamw_and_cast(Queue& queue, const AdamW& args, Tensor cast);
void sum_of_squares(Queue& queue, ConstTensor x, Tensor out, Tensor workspace);
void weighted_sum(Queue& queue, ConstTensor x, ConstTensor weights, Tensor out, Tensor workspace);
void fill_zero(Queue& queue, Tensor x);

void sum_rows(Queue& queue, const SumRows& args);

}  // namespace dcp::kernels::cuda
