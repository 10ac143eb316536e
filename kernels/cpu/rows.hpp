// Vector loops over rows, one thread: the bodies of the row-wise operations. The operations call
// them in parallel over blocks of rows; the linear layers call them on the block that a product is
// about to read or has just written, while it is in cache.
//
// Arguments are two-dimensional views (rows x columns, rows may be strided) with the element types
// that the public header of each operation allows; formulas stand there. Nothing is checked here.
// Compiled for several instruction sets and chosen at run time (Highway).
#pragma once

#include <cstdint>

#include "core/base/tensor.hpp"

namespace dcp::kernels::cpu {

void rmsnorm_rows_forward(
    ConstTensor x, ConstTensor weight, float epsilon, Tensor y, float* inverse_rms);
// y again from saved statistics: the same bits as the forward pass.
void rmsnorm_rows_apply(ConstTensor x, ConstTensor weight, const float* inverse_rms, Tensor y);
// residual may be empty. d_weight: [columns], added to.
void rmsnorm_rows_backward(ConstTensor d_y,
                           ConstTensor x,
                           ConstTensor weight,
                           const float* inverse_rms,
                           ConstTensor residual,
                           Tensor d_x,
                           float* d_weight);

void layernorm_rows_forward(ConstTensor x,
                            ConstTensor weight,
                            ConstTensor bias,
                            float epsilon,
                            Tensor y,
                            float* mean,
                            float* inverse_std);
void layernorm_rows_apply(ConstTensor x,
                          ConstTensor weight,
                          ConstTensor bias,
                          const float* mean,
                          const float* inverse_std,
                          Tensor y);
void layernorm_rows_backward(ConstTensor d_y,
                             ConstTensor x,
                             ConstTensor weight,
                             const float* mean,
                             const float* inverse_std,
                             ConstTensor residual,
                             Tensor d_x,
                             float* d_weight,
                             float* d_bias);

void swiglu_rows_forward(ConstTensor gate_up, Tensor y);
void swiglu_rows_backward(ConstTensor d_y, ConstTensor gate_up, Tensor d_gate_up);
void gelu_rows_forward(ConstTensor x, Tensor y);
void gelu_rows_backward(ConstTensor d_y, ConstTensor x, Tensor d_x);

// y = a + b; b may be empty: a copy with conversion.
void add_rows(ConstTensor a, ConstTensor b, Tensor y);

// The first num_heads * head_dim columns of x, in place. positions: one a row.
void rope_rows(Tensor x,
               std::int64_t num_heads,
               std::int64_t head_dim,
               const std::int32_t* positions,
               ConstTensor cos,
               ConstTensor sin,
               bool inverse);

// d_logits may be empty (loss only), or logits itself when fp32. weights is read only with
// d_logits.
void cross_entropy_rows(ConstTensor logits,
                        const std::int32_t* targets,
                        const float* weights,
                        float* loss,
                        Tensor d_logits);

}  // namespace dcp::kernels::cpu
