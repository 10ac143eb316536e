// f(x) of a linear layer for a few rows, one thread, and the derivative of f applied to the rows
// that a product has just made.
#pragma once

#include <cstdint>

#include "core/base/tensor.hpp"
#include "kernels/linear.hpp"

namespace dcp::kernels::cpu {

inline bool is_norm(InputKind kind) {
    return kind == InputKind::kRmsNorm || kind == InputKind::kLayerNorm;
}

enum class Statistics : std::uint8_t { kWrite, kRead };

// f(x)[begin + t, :] -> y[t, :] for all rows of y. kPlain: a copy.
void input_rows_forward(const LinearInput& input,
                        std::int64_t begin,
                        Statistics statistics,
                        Tensor y);

// Gradients of norms with respect to their parameters, for a block of rows; [K] each, added to.
struct NormPartials {
    float* d_weight = nullptr;
    float* d_bias = nullptr;
};

// d_x[begin + t, :] = J_f^T d_f[t, :] (+ residual[begin + t, :]) for all rows of d_f.
void input_rows_backward(const LinearInput& input,
                         std::int64_t begin,
                         ConstTensor d_f,
                         ConstTensor residual_TK,
                         Tensor d_x,
                         const NormPartials& partials);

}  // namespace dcp::kernels::cpu
