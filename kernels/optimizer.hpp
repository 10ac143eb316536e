// AdamW with decoupled decay (Loshchilov & Hutter 2019, arXiv 1711.05101) on flat fp32 arrays, and
// the sums that an update needs.
//
//     g' = g * gradient_scale     m = beta1 m + (1 - beta1) g'     v = beta2 v + (1 - beta2) g'^2
//     p  = p - lr * decay * p - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) +
//     epsilon)
//
// Element-wise; p, g, m, v of equal length. `step` counts from 1. Sums are taken over fixed blocks
// of elements in double and then in block order: equal inputs give equal bits for any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels {

struct AdamW {
    Tensor parameters;
    ConstTensor gradients;
    Tensor first_moments;
    Tensor second_moments;
    double learning_rate = 0;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double decay = 0;
    double gradient_scale = 1;  // clipping
    std::int64_t step = 1;
};
void adamw(Queue& queue, const AdamW& args);

// out[0] (a float64 in 8 bytes of uint8) = sum of x[i]^2. x: fp32, contiguous. Not finite when any
// x is not.
void sum_of_squares(Queue& queue, ConstTensor x, Tensor out, Tensor workspace);
// out[0] (likewise) = sum of x[i] * weights[i]; weights may be null (all one). For losses of
// tokens.
void weighted_sum(Queue& queue, ConstTensor x, ConstTensor weights, Tensor out, Tensor workspace);
std::size_t sum_workspace_bytes(std::int64_t num_elems);

// x = 0
void fill_zero(Queue& queue, Tensor x);

}  // namespace dcp::kernels
