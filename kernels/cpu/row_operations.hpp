// The CPU side of the row-wise operations, the embedding and the optimizer: arguments are checked,
// shapes agree. Contracts: the public header of each operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layernorm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/rope.hpp"

namespace dcp::kernels::cpu {

void rmsnorm_forward(const Queue& queue, const RmsNormForward& args);
void rmsnorm_backward(const Queue& queue, const RmsNormBackward& args);
void layernorm_forward(const Queue& queue, const LayerNormForward& args);
void layernorm_backward(const Queue& queue, const LayerNormBackward& args);
// Room for one row of C sums a block of rows; LayerNorm takes it twice.
std::size_t partial_sums_bytes(std::int64_t T, std::int64_t C);

void swiglu_forward(const Queue& queue, const SwiGluForward& args);
void swiglu_backward(const Queue& queue, const SwiGluBackward& args);
void gelu_forward(const Queue& queue, const GeluForward& args);
void gelu_backward(const Queue& queue, const GeluBackward& args);
void add(const Queue& queue, const Add& args);

void rope_fill_table(const Queue& queue, const RopeTable& table, double theta);
void rope(const Queue& queue, const Rope& args);

void cross_entropy(const Queue& queue, const CrossEntropy& args);

void embedding_forward(const Queue& queue, const EmbeddingForward& args);
void embedding_backward(const Queue& queue, const EmbeddingBackward& args);

void adamw(const Queue& queue, const AdamW& args);
void sum_of_squares(const Queue& queue, ConstTensor x, Tensor out, Tensor workspace);
void weighted_sum(
    const Queue& queue, ConstTensor x, ConstTensor weights, Tensor out, Tensor workspace);
std::size_t sum_workspace_bytes(std::int64_t num_elems);
void fill_zero(const Queue& queue, Tensor x);

}  // namespace dcp::kernels::cpu
