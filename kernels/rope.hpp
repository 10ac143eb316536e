// Rotary position embedding, half-split ("rotate half") convention of Llama in Hugging Face (Su et
// al. 2021, arXiv 2104.09864).
//
// In a head of dimension D, element i pairs with i + D/2; at position p the pair turns by p *
// theta^(-2i/D):
//
//     y[i] = x[i] cos - x[i+D/2] sin        y[i+D/2] = x[i+D/2] cos + x[i] sin
//
// The transpose turns back, so the backward pass is the same function with `inverse`.
#pragma once

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels {

// Cosines and sines for positions 0 .. P-1, made once at start (in double, then rounded): fp32,
// both [P, D/2].
struct RopeTable {
    Tensor cos_PD;
    Tensor sin_PD;
};
void rope_fill_table(Queue& queue, const RopeTable& table, double theta);

struct Rope {
    Tensor x_THD;  // in place; rows may be strided, so that it can be the queries inside a fused
                   // activation
    ConstTensor positions_T;  // int32, position of each token in its own sequence, each < P
    ConstTensor cos_PD;
    ConstTensor sin_PD;
    bool inverse = false;
};
void rope(Queue& queue, const Rope& args);

}  // namespace dcp::kernels
