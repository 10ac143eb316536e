// The part of attention between the products: scores become probabilities, on blocks held as
// [keys, queries] (a query is a lane). Vector code chosen at run time.
//
// Exponentials are powers of two: 2^x as a whole power times a polynomial of degree 5 on
// [-1/2, 1/2], relative error below 2e-7; arguments below -120 count as -120. The online softmax
// raises a query's reference only when a score exceeds it by more than 2^8: the sums stay far from
// overflow and the outputs are rarely rescaled.
#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"

namespace dcp::kernels::cpu {

inline constexpr float kLog2E = 1.4426950408889634F;  // exponentials are powers of two

// One block of scores. Key j is seen by query i exactly when j < keys and j <= i + diagonal.
struct ScoreBlock {
    int keys = 0;         // not padded
    int padded_keys = 0;  // rows of probabilities to write; zeros from `keys` on
    int queries = 0;      // lanes, a multiple of 16
    std::int64_t diagonal = 0;
    int row = 0;           // elements from one row to the next, in scores and probabilities
    float log2_scale = 0;  // scale * log2(e), positive
};

// Where probabilities of a block go as operands. Null members are not written. fp32: `rows` may be
// the scores themselves.
template <class T>
struct BlockOperands {
    T* rows = nullptr;               // [padded_keys][row]
    std::uint32_t* pairs = nullptr;  // bf16: [padded_keys / 2][row] pairs of keys
};

// Running values of the online softmax, one lane a query: the true maximum is at most 2^8 above
// the reference.
struct SoftmaxState {
    float* reference;  // log2 of the factor that is taken out
    float* sum;        // of 2^(score - reference)
};

// p = 2^(score - reference). The first block of a query sets its state. Returns true when earlier
// outputs must be multiplied by rescale[lane].
bool softmax_block(const ScoreBlock& block,
                   float* scores,
                   bool is_first,
                   const SoftmaxState& state,
                   float* rescale,
                   const BlockOperands<float>& p);
bool softmax_block(const ScoreBlock& block,
                   float* scores,
                   bool is_first,
                   const SoftmaxState& state,
                   float* rescale,
                   const BlockOperands<BFloat16>& p);

// x[i][lane] *= factor[lane].
void scale_lanes(float* x, int rows, int row, int lanes, const float* factor);

// inverse_sum = 1 / sum; lse = natural logarithm of the sum of exp(scale * score).
void finish_softmax(const SoftmaxState& state, int queries, float* inverse_sum, float* lse);

// p = 2^(score - lse2), d_s = p * (d_p - delta); lse2 is lse in powers of two, +infinity for lanes
// that are padding.
struct SoftmaxBackward {
    float* scores;
    float* d_p;
    const float* lse2;
    const float* delta;
};
void softmax_block_backward(const ScoreBlock& block,
                            const SoftmaxBackward& args,
                            const BlockOperands<float>& p,
                            const BlockOperands<float>& d_s);
void softmax_block_backward(const ScoreBlock& block,
                            const SoftmaxBackward& args,
                            const BlockOperands<BFloat16>& p,
                            const BlockOperands<BFloat16>& d_s);

}  // namespace dcp::kernels::cpu
