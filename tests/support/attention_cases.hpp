// Attention against its definition in double (reference_attention.cpp): one body for every backend.
// A test chooses the queue and the cases that suit its speed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"

#include "core/base/queue.hpp"
#include "kernels/attention.hpp"

namespace dcp::test {

struct AttentionCase {
    DType dtype = DType::kFloat32;
    std::int64_t H = 2;
    std::int64_t G = 2;
    std::int64_t D = 32;
    std::vector<kernels::AttentionSpan> spans;
    bool causal = true;
    DType gradient_dtype = DType::kFloat32;
    kernels::GradMode mode = kernels::GradMode::kOverwrite;
    std::int64_t gap = 0;         // elements between the rows of all tensors
    double query_scale = 1;       // larger: scores of larger magnitude
    std::int64_t spare_rows = 0;  // that no span names

    std::int64_t num_queries() const;
    std::int64_t num_keys() const;
    float scale() const;
    std::string name() const;
    reference::AttentionProblem problem() const;
    kernels::AttentionSizes sizes() const;
};

// Whole sequences one after the other.
std::vector<kernels::AttentionSpan> packed(const std::vector<std::int64_t>& lengths);

// Random; rows that no span names are NaN.
struct AttentionInputs {
    explicit AttentionInputs(const AttentionCase& c);
    TestTensor q;
    TestTensor k;
    TestTensor v;
    TestTensor d_o;
};

// NaN until written.
struct AttentionResults {
    explicit AttentionResults(const AttentionCase& c);
    void check_guards() const;
    TestTensor o;
    TestTensor lse;
    TestTensor d_q;
    TestTensor d_k;
    TestTensor d_v;
};

kernels::AttentionForward forward_args(const AttentionCase& c,
                                       const AttentionInputs& in,
                                       AttentionResults& out,
                                       TestTensor& workspace);
kernels::AttentionBackward backward_args(const AttentionCase& c,
                                         const AttentionInputs& in,
                                         AttentionResults& out,
                                         TestTensor& workspace);

// Forward, then backward with its results; waits for both.
void run_attention(Queue& queue,
                   const AttentionCase& c,
                   const AttentionInputs& in,
                   AttentionResults& out);

// Relative to the size of a whole tensor.
struct AttentionTolerances {
    double outputs;
    double lse;
    double gradients;
};
AttentionTolerances attention_tolerances(const AttentionCase& c);

// All results of a case against the reference, as CHECKs.
void check_attention(Queue& queue, const AttentionCase& c);
using AttentionRunner =
    std::function<void(const AttentionCase&, const AttentionInputs&, AttentionResults&)>;
void check_attention(const AttentionRunner& run, const AttentionCase& c);

}  // namespace dcp::test
