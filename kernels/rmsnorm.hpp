// Root-mean-square normalisation over the last dimension (Zhang & Sennrich 2019, arXiv 1910.07467,
// eq. 4).
//
//     y[t,c] = x[t,c] * r[t] * weight[c]          r[t] = 1 / sqrt(mean over c of x[t,c]^2 +
//     epsilon)
//
// Backward, with g[t,c] = d_y[t,c] * weight[c] and m[t] = mean over c of g[t,c] * x[t,c]
// (differentiate r once):
//
//     d_x[t,c]    = residual[t,c] + r[t] * (g[t,c] - x[t,c] * r[t]^2 * m[t])
//     d_weight[c] = sum over t of d_y[t,c] * x[t,c] * r[t]
//
// x, y, d_y, d_x, residual are fp32 or bf16, each on its own; weights, statistics and d_weight are
// fp32, and so is all arithmetic. A row depends on itself alone: a token's y is the same bits for
// any T, any number of threads, any sharding.
#pragma once

#include <cstddef>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels {

struct RmsNormForward {
    ConstTensor x_TC;
    ConstTensor weight_C;
    Tensor y_TC;           // may be x_TC itself
    Tensor inverse_rms_T;  // r, kept for the backward pass: 4 bytes a token instead of y
    float epsilon = 1e-5F;
};

// T may be 0. Throws ShapeError when shapes or element types disagree, before anything is enqueued.
void rmsnorm_forward(Queue& queue, const RmsNormForward& args);

struct RmsNormBackward {
    ConstTensor d_y_TC;
    ConstTensor x_TC;
    ConstTensor weight_C;
    ConstTensor inverse_rms_T;
    ConstTensor residual_TC;  // optional: the gradient that reaches x on the path around the norm;
                              // may be d_x_TC itself
    Tensor d_x_TC;            // overwritten; may be d_y_TC itself
    Tensor d_weight_C;
    GradMode d_weight_mode = GradMode::kAccumulate;
    Tensor workspace;  // bytes, rmsnorm_backward_workspace_bytes(T, C), contents irrelevant
};

// d_weight is summed in a fixed order: equal inputs give equal bits, for any number of threads.
void rmsnorm_backward(Queue& queue, const RmsNormBackward& args);

std::size_t rmsnorm_backward_workspace_bytes(std::int64_t T, std::int64_t C);

}  // namespace dcp::kernels
