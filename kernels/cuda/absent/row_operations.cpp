// The row-wise operations of a build without CUDA: nobody can make a queue for it, so nothing of
// this runs.
#include "kernels/cuda/row_operations.hpp"

#include "core/base/errors.hpp"

namespace dcp::kernels::cuda {

namespace {

[[noreturn]] void refuse() {
    throw UnsupportedError("this build has no CUDA backend; use device: cpu");
}

}  // namespace

void rmsnorm_forward(Queue& /*queue*/, const RmsNormForward& /*args*/) {
    refuse();
}
void rmsnorm_apply(Queue& /*queue*/, const RmsNormForward& /*args*/) {
    refuse();
}
void rmsnorm_backward(Queue& /*queue*/, const RmsNormBackward& /*args*/) {
    refuse();
}
void layernorm_forward(Queue& /*queue*/, const LayerNormForward& /*args*/) {
    refuse();
}
void layernorm_apply(Queue& /*queue*/, const LayerNormForward& /*args*/) {
    refuse();
}
void layernorm_backward(Queue& /*queue*/, const LayerNormBackward& /*args*/) {
    refuse();
}
void swiglu_forward(Queue& /*queue*/, const SwiGluForward& /*args*/) {
    refuse();
}
void swiglu_backward(Queue& /*queue*/, const SwiGluBackward& /*args*/) {
    refuse();
}
void gelu_forward(Queue& /*queue*/, const GeluForward& /*args*/) {
    refuse();
}
void gelu_backward(Queue& /*queue*/, const GeluBackward& /*args*/) {
    refuse();
}
void add(Queue& /*queue*/, const Add& /*args*/) {
    refuse();
}
void rope_fill_table(Queue& /*queue*/, const RopeTable& /*table*/, double /*theta*/) {
    refuse();
}
void rope(Queue& /*queue*/, const Rope& /*args*/) {
    refuse();
}
void embedding_forward(Queue& /*queue*/, const EmbeddingForward& /*args*/) {
    refuse();
}
void embedding_backward(Queue& /*queue*/, const EmbeddingBackward& /*args*/) {
    refuse();
}
void cross_entropy(Queue& /*queue*/, const CrossEntropy& /*args*/) {
    refuse();
}
void adamw(Queue& /*queue*/, const AdamW& /*args*/) {
    refuse();
}
void adamw_and_cast(Queue& /*queue*/, const AdamW& /*args*/, Tensor /*cast*/) {
    refuse();
}
void sum_of_squares(Queue& /*queue*/, ConstTensor /*x*/, Tensor /*out*/, Tensor /*workspace*/) {
    refuse();
}
void weighted_sum(Queue& /*queue*/,
                  ConstTensor /*x*/,
                  ConstTensor /*weights*/,
                  Tensor /*out*/,
                  Tensor /*workspace*/) {
    refuse();
}
void fill_zero(Queue& /*queue*/, Tensor /*x*/) {
    refuse();
}
void sum_rows(Queue& /*queue*/, const SumRows& /*args*/) {
    refuse();
}

}  // namespace dcp::kernels::cuda
