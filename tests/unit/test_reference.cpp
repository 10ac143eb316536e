// The references that every kernel is compared with: their gradients against finite differences.
#include <cmath>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include <catch2/catch.hpp>

#include "core/base/rng.hpp"

using namespace dcp;
using namespace dcp::test;

namespace {

// Four points leave an error of the order of step^4 (1e-12) times a fifth derivative, and rounding
// of 1e-16 / step; both are far below this.
constexpr double kTolerance = 1e-8;

Values random_values(std::int64_t count, std::uint64_t seed, double scale = 1) {
    Values values(static_cast<std::size_t>(count));
    const CounterRng rng(seed, "reference", 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = scale * rng.normal(i);
    }
    return values;
}

}  // namespace

TEST_CASE("gradients of the reference norms", "[unit]") {
    constexpr std::int64_t T = 3;
    constexpr std::int64_t C = 5;
    const Values x = random_values(T * C, 1);
    const Values weight = random_values(C, 2);
    const Values bias = random_values(C, 3);
    const Values d_y = random_values(T * C, 4);
    const double epsilon = 0.01;

    const auto rms = reference::rmsnorm_backward(d_y, x, weight, epsilon);
    const auto rms_loss = [&](const Values& at_x, const Values& at_weight) {
        return reference::dot(reference::rmsnorm(at_x, at_weight, epsilon).y, d_y);
    };
    const auto by_x = [&](const Values& at) { return rms_loss(at, weight); };
    const auto by_weight = [&](const Values& at) { return rms_loss(x, at); };
    CHECK(max_error(rms.d_x, reference::finite_differences(by_x, x)) < kTolerance);
    CHECK(max_error(rms.d_weight, reference::finite_differences(by_weight, weight)) < kTolerance);

    const auto layer = reference::layernorm_backward(d_y, x, weight, epsilon);
    const auto loss = [&](const Values& at_x, const Values& at_weight, const Values& at_bias) {
        return reference::dot(reference::layernorm(at_x, at_weight, at_bias, epsilon).y, d_y);
    };
    const auto layer_by_x = [&](const Values& at) { return loss(at, weight, bias); };
    const auto layer_by_weight = [&](const Values& at) { return loss(x, at, bias); };
    const auto layer_by_bias = [&](const Values& at) { return loss(x, weight, at); };
    CHECK(max_error(layer.d_x, reference::finite_differences(layer_by_x, x)) < kTolerance);
    CHECK(max_error(layer.d_weight, reference::finite_differences(layer_by_weight, weight)) <
          kTolerance);
    CHECK(max_error(layer.d_bias, reference::finite_differences(layer_by_bias, bias)) < kTolerance);
}

TEST_CASE("gradients of the reference activations and of rope", "[unit]") {
    constexpr std::int64_t T = 3;
    constexpr std::int64_t F = 4;
    const Values gate_up = random_values(T * 2 * F, 1, 2);
    const Values d_y = random_values(T * F, 2);
    const auto swiglu = [&](const Values& at) {
        return reference::dot(reference::swiglu(at, F), d_y);
    };
    CHECK(max_error(reference::swiglu_backward(d_y, gate_up, F),
                    reference::finite_differences(swiglu, gate_up)) < kTolerance);

    const Values x = random_values(T * F, 3, 2);
    const auto gelu = [&](const Values& at) { return reference::dot(reference::gelu(at), d_y); };
    CHECK(max_error(reference::gelu_backward(d_y, x), reference::finite_differences(gelu, x)) <
          kTolerance);

    const std::vector<std::int32_t> positions{0, 5, 1000};
    const auto rope = [&](const Values& at) {
        return reference::dot(reference::rope(at, positions, F, 100, false), d_y);
    };
    CHECK(max_error(reference::rope(d_y, positions, F, 100, true),
                    reference::finite_differences(rope, x)) < kTolerance);
}

TEST_CASE("gradients of the reference loss, embedding and products", "[unit]") {
    constexpr std::int64_t T = 4;
    constexpr std::int64_t N = 3;
    constexpr std::int64_t K = 5;
    const Values logits = random_values(T * N, 1, 2);
    const std::vector<std::int32_t> targets{0, -1, 2, 1};
    const Values weights = random_values(T, 2);
    const auto loss = [&](const Values& at) {
        return reference::dot(reference::cross_entropy(at, N, targets, weights).loss, weights);
    };
    CHECK(max_error(reference::cross_entropy(logits, N, targets, weights).d_logits,
                    reference::finite_differences(loss, logits)) < kTolerance);

    const std::vector<std::int32_t> tokens{2, 0, 2, 2};
    const Values table = random_values(N * K, 3);
    const Values d_x = random_values(T * K, 4);
    const auto embedding = [&](const Values& at) {
        return reference::dot(reference::embedding(tokens, at, K), d_x);
    };
    CHECK(max_error(reference::embedding_backward(tokens, d_x, N, K),
                    reference::finite_differences(embedding, table)) < kTolerance);

    const Values x = random_values(T * K, 5);
    const Values w = random_values(N * K, 6);
    const Values d_y = random_values(T * N, 7);
    const auto by_x = [&](const Values& at) {
        return reference::dot(reference::linear(at, w, N, K), d_y);
    };
    const auto by_w = [&](const Values& at) {
        return reference::dot(reference::linear(x, at, N, K), d_y);
    };
    CHECK(max_error(reference::linear_backward_input(d_y, w, N, K),
                    reference::finite_differences(by_x, x)) < kTolerance);
    CHECK(max_error(reference::linear_backward_weight(d_y, x, N, K),
                    reference::finite_differences(by_w, w)) < kTolerance);
}

TEST_CASE("gradients of the reference attention", "[unit]") {
    reference::AttentionProblem problem;
    problem.num_queries = 6;
    problem.num_keys = 7;
    problem.num_heads = 4;
    problem.num_kv_heads = 2;
    problem.head_dim = 3;
    problem.scale = 0.6;
    problem.causal = GENERATE(true, false);
    // The first query of the second span sees no key.
    problem.spans = {{0, 3, 0, 3, 0}, {3, 3, 3, 4, -1}};
    const Values q = random_values(6 * 4 * 3, 1);
    const Values k = random_values(7 * 2 * 3, 2);
    const Values v = random_values(7 * 2 * 3, 3);
    const Values d_o = random_values(6 * 4 * 3, 4);

    const auto loss = [&](const Values& at_q, const Values& at_k, const Values& at_v) {
        return reference::dot(reference::attention(problem, at_q, at_k, at_v).o, d_o);
    };
    const auto by_q = [&](const Values& at) { return loss(at, k, v); };
    const auto by_k = [&](const Values& at) { return loss(q, at, v); };
    const auto by_v = [&](const Values& at) { return loss(q, k, at); };
    const auto gradients = reference::attention_backward(problem, q, k, v, d_o);
    CHECK(max_error(gradients.d_q, reference::finite_differences(by_q, q)) < kTolerance);
    CHECK(max_error(gradients.d_k, reference::finite_differences(by_k, k)) < kTolerance);
    CHECK(max_error(gradients.d_v, reference::finite_differences(by_v, v)) < kTolerance);
}

TEST_CASE("the reference attention leaves rows outside spans alone", "[unit]") {
    reference::AttentionProblem problem;
    problem.num_queries = 3;
    problem.num_keys = 3;
    problem.num_heads = 1;
    problem.num_kv_heads = 1;
    problem.head_dim = 1;
    problem.spans = {{1, 1, 1, 1, 0}};
    const auto result = reference::attention(problem, {1, 2, 3}, {1, 2, 3}, {1, 2, 3});
    CHECK(std::isnan(result.o[0]));
    CHECK(result.o[1] == 2);  // one key: its value
    CHECK(result.lse[1] == 4);
    CHECK(std::isnan(result.o[2]));
}

TEST_CASE("the comparison notices what is wrong", "[unit]") {
    const Values expected{1, 2, 2};
    CHECK(relative_error(Values{1, 2, 2}, expected) == 0);
    CHECK(relative_error(Values{1, 2, 2.3}, expected) == Approx(0.1));
    CHECK(max_error(Values{1, 2, 2.3}, expected) == Approx(0.15));
    CHECK(std::isinf(relative_error(Values{1, 2, std::nan("")}, expected)));
    CHECK(std::isinf(max_error(Values{1, 2}, expected)));
    CHECK(std::isinf(max_error(Values{1, 2, 2}, Values{1, 2, std::nan("")})));

    auto tensor = nan_tensor(DType::kBFloat16, {2, 3}, 5);
    CHECK(std::isnan(tensor.values()[5]));
    CHECK(tensor.guards_intact());
    tensor.tensor().as<BFloat16>()[3] = BFloat16(1.0F);  // between the rows
    CHECK_FALSE(tensor.guards_intact());
}
