#include "tests/support/attention_cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/compare.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace dcp::test {

using kernels::AttentionSpan;
using kernels::GradMode;

std::int64_t AttentionCase::num_queries() const {
    std::int64_t rows = 0;
    for (const AttentionSpan& span : spans) {
        rows = std::max(rows, span.q_begin + span.q_count);
    }
    return rows + spare_rows;
}

std::int64_t AttentionCase::num_keys() const {
    std::int64_t rows = 0;
    for (const AttentionSpan& span : spans) {
        rows = std::max(rows, span.k_begin + span.k_count);
    }
    return rows + spare_rows;
}

float AttentionCase::scale() const {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(D)));
}

std::string AttentionCase::name() const {
    return fmt::format("{} H{} G{} D{} {} gap {} gradients {}", dcp::name(dtype), H, G, D,
                       causal ? "causal" : "full", gap, dcp::name(gradient_dtype));
}

reference::AttentionProblem AttentionCase::problem() const {
    return {num_queries(), num_keys(), H, G, D, spans, causal, scale()};
}

kernels::AttentionSizes AttentionCase::sizes() const {
    return {dtype, num_queries(), num_keys(), H, G, D};
}

std::vector<AttentionSpan> packed(const std::vector<std::int64_t>& lengths) {
    std::vector<AttentionSpan> spans;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
        spans.push_back({begin, length, begin, length, 0});
        begin += length;
    }
    return spans;
}

namespace {

TestTensor input(const AttentionCase& c, bool of_queries, std::uint64_t seed, double scale = 1) {
    const std::int64_t rows = of_queries ? c.num_queries() : c.num_keys();
    const std::int64_t heads = of_queries ? c.H : c.G;
    const Shape shape{rows, heads, c.D};
    TestTensor tensor = random_tensor(c.dtype, shape, seed, scale, 0, heads * c.D + c.gap);
    Values values = tensor.values();
    std::vector<bool> named(static_cast<std::size_t>(rows), false);
    for (const AttentionSpan& span : c.spans) {
        const std::int64_t begin = of_queries ? span.q_begin : span.k_begin;
        std::fill_n(named.begin() + begin, of_queries ? span.q_count : span.k_count, true);
    }
    for (std::size_t i = 0; i < values.size(); i++) {
        if (!named[i / static_cast<std::size_t>(heads * c.D)]) {
            values[i] = std::numeric_limits<double>::quiet_NaN();
        }
    }
    tensor.set(values);
    return tensor;
}

TestTensor output(const AttentionCase& c, DType dtype, bool of_queries) {
    const std::int64_t heads = of_queries ? c.H : c.G;
    return nan_tensor(dtype, {of_queries ? c.num_queries() : c.num_keys(), heads, c.D},
                      heads * c.D + c.gap);
}

Values sum(const Values& a, const Values& b) {
    Values result(a.size());
    std::transform(a.begin(), a.end(), b.begin(), result.begin(), std::plus<>());
    return result;
}

}  // namespace

AttentionInputs::AttentionInputs(const AttentionCase& c)
    : q(input(c, true, 1, c.query_scale)),
      k(input(c, false, 2)),
      v(input(c, false, 3)),
      d_o(input(c, true, 4)) {}

AttentionResults::AttentionResults(const AttentionCase& c)
    : o(output(c, c.dtype, true)),
      lse(nan_tensor(DType::kFloat32, {c.H, c.num_queries()})),
      d_q(output(c, c.gradient_dtype, true)),
      d_k(output(c, c.gradient_dtype, false)),
      d_v(output(c, c.gradient_dtype, false)) {}

void AttentionResults::check_guards() const {
    CHECK(o.guards_intact());
    CHECK(lse.guards_intact());
    CHECK(d_q.guards_intact());
    CHECK(d_k.guards_intact());
    CHECK(d_v.guards_intact());
}

kernels::AttentionForward forward_args(const AttentionCase& c,
                                       const AttentionInputs& in,
                                       AttentionResults& out,
                                       TestTensor& workspace) {
    return {.q_THD = in.q,
            .k_TGD = in.k,
            .v_TGD = in.v,
            .o_THD = out.o,
            .lse_HT = out.lse,
            .spans = c.spans,
            .causal = c.causal,
            .scale = c.scale(),
            .workspace = workspace};
}

kernels::AttentionBackward backward_args(const AttentionCase& c,
                                         const AttentionInputs& in,
                                         AttentionResults& out,
                                         TestTensor& workspace) {
    return {.q_THD = in.q,
            .k_TGD = in.k,
            .v_TGD = in.v,
            .o_THD = out.o,
            .lse_HT = out.lse,
            .d_o_THD = in.d_o,
            .d_q_THD = out.d_q,
            .d_k_TGD = out.d_k,
            .d_v_TGD = out.d_v,
            .mode = c.mode,
            .spans = c.spans,
            .causal = c.causal,
            .scale = c.scale(),
            .workspace = workspace};
}

void run_attention(Queue& queue,
                   const AttentionCase& c,
                   const AttentionInputs& in,
                   AttentionResults& out) {
    const auto bytes = std::max(kernels::attention_forward_workspace_bytes(queue, c.sizes()),
                                kernels::attention_backward_workspace_bytes(queue, c.sizes()));
    TestTensor workspace = byte_tensor(bytes);
    kernels::attention_forward(queue, forward_args(c, in, out, workspace));
    kernels::attention_backward(queue, backward_args(c, in, out, workspace));
    queue.synchronize();
    CHECK(workspace.guards_intact());
    out.check_guards();
}

// Errors are relative to the size of a whole tensor. fp32: the scores are sums of D products and
// enter an exponential, which multiplies their relative error by their size; the factor covers the
// rest of the chain. bf16: probabilities, their gradients and outputs are each rounded once, by at
// most epsilon / 2.
AttentionTolerances attention_tolerances(const AttentionCase& c) {
    const double rounding = epsilon(DType::kFloat32) * (2 + std::sqrt(static_cast<double>(c.D)));
    const double fp32 = rounding * std::max(1.0, c.query_scale);
    if (c.dtype == DType::kFloat32) {
        return {fp32, fp32, 2 * fp32};
    }
    return {epsilon(DType::kBFloat16) / 2, fp32,
            epsilon(DType::kBFloat16) * std::max(1.0, c.query_scale / 2)};
}

void check_attention(const AttentionRunner& run, const AttentionCase& c) {
    INFO(c.name());
    const AttentionInputs in(c);
    AttentionResults out(c);
    Values d_q_before(static_cast<std::size_t>(out.d_q.shape().num_elems()), 0);
    Values d_k_before(static_cast<std::size_t>(out.d_k.shape().num_elems()), 0);
    Values d_v_before = d_k_before;
    if (c.mode == GradMode::kAccumulate) {
        d_q_before = random_tensor(c.gradient_dtype, out.d_q.shape(), 11).values();
        d_k_before = random_tensor(c.gradient_dtype, out.d_k.shape(), 12).values();
        d_v_before = random_tensor(c.gradient_dtype, out.d_v.shape(), 13).values();
        out.d_q.set(d_q_before);
        out.d_k.set(d_k_before);
        out.d_v.set(d_v_before);
    }
    run(c, in, out);
    const reference::AttentionProblem problem = c.problem();
    const Values q = in.q.values();
    const Values k = in.k.values();
    const Values v = in.v.values();
    const reference::Attention expected = reference::attention(problem, q, k, v);
    const reference::AttentionGradients gradients =
        reference::attention_backward(problem, q, k, v, in.d_o.values());
    const AttentionTolerances tolerance = attention_tolerances(c);
    CHECK(relative_error(out.o, expected.o) < tolerance.outputs);
    CHECK(relative_error(out.lse, expected.lse) < tolerance.lse);
    CHECK(relative_error(out.d_q, sum(d_q_before, gradients.d_q)) < tolerance.gradients);
    CHECK(relative_error(out.d_k, sum(d_k_before, gradients.d_k)) < tolerance.gradients);
    CHECK(relative_error(out.d_v, sum(d_v_before, gradients.d_v)) < tolerance.gradients);
}

void check_attention(Queue& queue, const AttentionCase& c) {
    check_attention([&](const AttentionCase& same, const AttentionInputs& in,
                        AttentionResults& out) { run_attention(queue, same, in, out); },
                    c);
}

}  // namespace dcp::test
