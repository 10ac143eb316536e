// Layer normalisation over the last dimension (Ba, Kiros & Hinton 2016, arXiv 1607.06450), with
// weight and bias.
//
//     y[t,c] = (x[t,c] - mean[t]) * r[t] * weight[c] + bias[c]      r[t] = 1 / sqrt(variance[t] +
//     epsilon), variance over C, biased
//
// Backward, with n = (x - mean) * r, g = d_y * weight, a = mean over c of g, b = mean over c of g *
// n:
//
//     d_x = residual + r * (g - a - n * b)      d_weight[c] = sum over t of d_y * n      d_bias[c]
//     = sum over t of d_y
//
// Element types, aliasing, determinism and row independence as in rmsnorm.hpp.
#pragma once

#include <cstddef>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels {

struct LayerNormForward {
    ConstTensor x_TC;
    ConstTensor weight_C;
    ConstTensor bias_C;
    Tensor y_TC;  // may be x_TC itself
    Tensor mean_T;
    Tensor inverse_std_T;
    float epsilon = 1e-5F;
};
void layernorm_forward(Queue& queue, const LayerNormForward& args);

struct LayerNormBackward {
    ConstTensor d_y_TC;
    ConstTensor x_TC;
    ConstTensor weight_C;
    ConstTensor mean_T;
    ConstTensor inverse_std_T;
    ConstTensor residual_TC;  // optional; may be d_x_TC itself
    Tensor d_x_TC;            // overwritten; may be d_y_TC itself
    Tensor d_weight_C;
    Tensor d_bias_C;
    GradMode d_weight_mode = GradMode::kAccumulate;  // for both
    Tensor workspace;                                // layernorm_backward_workspace_bytes(T, C)
};
void layernorm_backward(Queue& queue, const LayerNormBackward& args);

std::size_t layernorm_backward_workspace_bytes(std::int64_t T, std::int64_t C);

}  // namespace dcp::kernels
