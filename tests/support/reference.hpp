// The operations of kernels/*.hpp as plain loops in double: slow, obvious, and themselves checked
// by finite differences (tests/unit/test_reference.cpp). Values are the elements in row-major
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/support/tensors.hpp"

#include "kernels/attention.hpp"

namespace dcp::test::reference {

struct Norm {
    Values y;
    Values mean;     // LayerNorm only
    Values inverse;  // of the root mean square, or of the standard deviation
};
struct NormGradients {
    Values d_x;
    Values d_weight;
    Values d_bias;  // LayerNorm only
};
// Rows have weight.size() columns.
Norm rmsnorm(const Values& x, const Values& weight, double epsilon);
NormGradients rmsnorm_backward(const Values& d_y,
                               const Values& x,
                               const Values& weight,
                               double epsilon);
Norm layernorm(const Values& x, const Values& weight, const Values& bias, double epsilon);
NormGradients layernorm_backward(const Values& d_y,
                                 const Values& x,
                                 const Values& weight,
                                 double epsilon);

// x: [positions.size(), heads, head_dim]
Values rope(const Values& x,
            const std::vector<std::int32_t>& positions,
            std::int64_t head_dim,
            double theta,
            bool inverse);

// gate_up: [T, 2F]
Values swiglu(const Values& gate_up, std::int64_t F);
Values swiglu_backward(const Values& d_y, const Values& gate_up, std::int64_t F);
Values gelu(const Values& x);
Values gelu_backward(const Values& d_y, const Values& x);

Values embedding(const std::vector<std::int32_t>& tokens, const Values& table, std::int64_t C);
// Gradient of the whole table.
Values embedding_backward(const std::vector<std::int32_t>& tokens,
                          const Values& d_x,
                          std::int64_t V,
                          std::int64_t C);

struct CrossEntropy {
    Values loss;
    Values d_logits;
};
CrossEntropy cross_entropy(const Values& logits,
                           std::int64_t V,
                           const std::vector<std::int32_t>& targets,
                           const Values& weights);

// y = x w^T with x [T, K], w [N, K].
Values linear(const Values& x, const Values& w, std::int64_t N, std::int64_t K);
Values linear_backward_input(const Values& d_y, const Values& w, std::int64_t N, std::int64_t K);
Values linear_backward_weight(const Values& d_y, const Values& x, std::int64_t N, std::int64_t K);

struct AttentionProblem {
    std::int64_t num_queries = 0;  // rows of q and of k: Tq, Tk
    std::int64_t num_keys = 0;
    std::int64_t num_heads = 0;
    std::int64_t num_kv_heads = 0;
    std::int64_t head_dim = 0;
    std::vector<kernels::AttentionSpan> spans;
    bool causal = true;
    double scale = 1;
};
// Rows that no span names are NaN in every result.
struct Attention {
    Values o;    // [Tq, H, D]
    Values lse;  // [H, Tq]
};
struct AttentionGradients {
    Values d_q;
    Values d_k;
    Values d_v;
};
Attention attention(const AttentionProblem& problem,
                    const Values& q,
                    const Values& k,
                    const Values& v);
AttentionGradients attention_backward(const AttentionProblem& problem,
                                      const Values& q,
                                      const Values& k,
                                      const Values& v,
                                      const Values& d_o);

struct AdamWSettings {
    double learning_rate = 0;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double decay = 0;
    double gradient_scale = 1;
    std::int64_t step = 1;
};
void adamw(const AdamWSettings& settings, const Values& g, Values& p, Values& m, Values& v);

// Derivatives of a scalar function at `point`, by four points around every element: error of order
// step^4.
Values finite_differences(const std::function<double(const Values&)>& function,
                          const Values& point,
                          double step = 1e-3);

// sum of a[i] * b[i]; a scalar function of a result whose gradient is `b`
double dot(const Values& a, const Values& b);

}  // namespace dcp::test::reference
