// The two feed-forward activations, and the addition around a block. fp32 or bf16 storage, fp32
// arithmetic; row-wise, deterministic.
//
//     SwiGLU (Shazeer 2020, arXiv 2002.05202)   y = silu(gate) * up        silu(a) = a * s(a), s(a)
//     = 1 / (1 + exp(-a))
//         d_gate = d_y * up * s * (1 + gate * (1 - s))                     d_up = d_y * silu(gate)
//     GELU, tanh form (Hendrycks & Gimpel 2016, arXiv 1606.08415)          y = x/2 * (1 + tanh(u)),
//     u = sqrt(2/pi) (x + 0.044715 x^3)
//         d_x = d_y * (1/2 (1 + tanh u) + x/2 * (1 - tanh^2 u) * sqrt(2/pi) * (1 + 3 * 0.044715
//         x^2))
#pragma once

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels {

struct SwiGluForward {
    ConstTensor gate_up_TF;  // [T, 2F]: F gates, then F ups
    Tensor y_TF;             // [T, F]
};
void swiglu_forward(Queue& queue, const SwiGluForward& args);

struct SwiGluBackward {
    ConstTensor d_y_TF;
    ConstTensor gate_up_TF;
    Tensor d_gate_up_TF;  // [T, 2F], overwritten; may be gate_up_TF itself
};
void swiglu_backward(Queue& queue, const SwiGluBackward& args);

struct GeluForward {
    ConstTensor x_TF;
    Tensor y_TF;  // may be x_TF itself
};
void gelu_forward(Queue& queue, const GeluForward& args);

struct GeluBackward {
    ConstTensor d_y_TF;
    ConstTensor x_TF;
    Tensor d_x_TF;  // overwritten; may be x_TF or d_y_TF itself
};
void gelu_backward(Queue& queue, const GeluBackward& args);

// y = a + b. y may be a or b.
struct Add {
    ConstTensor a_TC;
    ConstTensor b_TC;
    Tensor y_TC;
};
void add(Queue& queue, const Add& args);

}  // namespace dcp::kernels
