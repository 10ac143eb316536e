// AdamW, sums and zeros on flat arrays.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/optimizer.hpp"

using namespace dcp;
using namespace dcp::test;

namespace {

constexpr DType kFp32 = DType::kFloat32;

double value_of(const TestTensor& out) {
    double value = 0;
    std::memcpy(&value, out.tensor().data(), sizeof(value));
    return value;
}

std::int64_t any_length() {
    return GENERATE(as<std::int64_t>{}, 0, 1, 2, 3, 5, 7, 31, 33, 257, 32768, 100003);
}

}  // namespace

TEST_CASE("adamw matches the double-precision loop over several steps", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const std::int64_t count = any_length();
    CAPTURE(count, instruction_set_name(instruction_set));
    TestQueue queue(2);
    auto p = random_tensor(kFp32, {count}, 1);
    auto m = value_tensor(kFp32, {count}, Values(static_cast<std::size_t>(count)));
    auto v = value_tensor(kFp32, {count}, Values(static_cast<std::size_t>(count)));
    const Values p_before = p.values();
    Values p_expected = p_before;
    Values m_expected = m.values();
    Values v_expected = v.values();
    reference::AdamWSettings settings{.learning_rate = 3e-3,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .decay = 0.1,
                                      .gradient_scale = 0.7};
    constexpr int kSteps = 5;
    for (settings.step = 1; settings.step <= kSteps; ++settings.step) {
        const auto g =
            random_tensor(kFp32, {count}, 10 + static_cast<std::uint64_t>(settings.step), 1e-3);
        kernels::adamw(queue, {.parameters = p,
                               .gradients = g,
                               .first_moments = m,
                               .second_moments = v,
                               .learning_rate = settings.learning_rate,
                               .beta1 = settings.beta1,
                               .beta2 = settings.beta2,
                               .epsilon = settings.epsilon,
                               .decay = settings.decay,
                               .gradient_scale = settings.gradient_scale,
                               .step = settings.step});
        reference::adamw(settings, g.values(), p_expected, m_expected, v_expected);
    }
    // Five steps of about four roundings each, half an epsilon a rounding.
    const double tolerance = kSteps * 2 * epsilon(kFp32);
    CHECK(max_error(p, p_expected) <= tolerance);
    CHECK(relative_error(m, m_expected) <= tolerance);
    CHECK(relative_error(v, v_expected) <= tolerance);
    CHECK((p.guards_intact() && m.guards_intact() && v.guards_intact()));
    // The same tolerance would notice that the decay was forgotten (5 steps of 3e-4).
    if (count >= 31) {
        for (std::size_t i = 0; i < p_expected.size(); ++i) {
            p_expected[i] += kSteps * settings.learning_rate * settings.decay * p_before[i];
        }
        CHECK_FALSE(max_error(p, p_expected) <= tolerance);
    }
}

TEST_CASE("sums in double over fixed blocks", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const std::int64_t count = any_length();
    CAPTURE(count, instruction_set_name(instruction_set));
    const auto x = random_tensor(kFp32, {count}, 1, 1, 0.5);
    const auto weights = random_tensor(kFp32, {count}, 2);
    double squares = 0;
    double weighted = 0;
    double plain = 0;
    const Values x_values = x.values();
    const Values weight_values = weights.values();
    for (std::size_t i = 0; i < x_values.size(); ++i) {
        squares += x_values[i] * x_values[i];
        weighted += x_values[i] * weight_values[i];
        plain += x_values[i];
    }
    // Products of two floats are exact in double: only additions round.
    const double tolerance = static_cast<double>(count) * 1.2e-16 * squares + 1e-300;
    auto workspace = byte_tensor(kernels::sum_workspace_bytes(count));
    std::vector<double> sums;
    for (const int threads : {1, 2, 3}) {
        TestQueue queue(threads);
        auto out = byte_tensor(8);
        kernels::sum_of_squares(queue, x, out, workspace);
        sums.push_back(value_of(out));
        CHECK(std::abs(value_of(out) - squares) <= tolerance);
        kernels::weighted_sum(queue, x, weights, out, workspace);
        CHECK(std::abs(value_of(out) - weighted) <= 2 * tolerance);
        kernels::weighted_sum(queue, x, {}, out, workspace);
        CHECK(std::abs(value_of(out) - plain) <= 2 * tolerance);
        CHECK((out.guards_intact() && workspace.guards_intact()));
    }
    CHECK(sums[0] == sums[1]);
    CHECK(sums[0] == sums[2]);
}

TEST_CASE("a sum of squares shows one number that is not finite", "[unit]") {
    const double bad =
        GENERATE(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN());
    const auto at = GENERATE(as<std::int64_t>{}, 0, 40000, 99998);
    auto x = random_tensor(kFp32, {99999}, 1, 1e30);
    auto out = byte_tensor(8);
    auto workspace = byte_tensor(kernels::sum_workspace_bytes(99999));
    TestQueue queue(2);
    kernels::sum_of_squares(queue, x, out, workspace);
    CHECK(std::isfinite(value_of(out)));  // 1e60 fits in a double
    x.set(at, bad);
    kernels::sum_of_squares(queue, x, out, workspace);
    CHECK_FALSE(std::isfinite(value_of(out)));
}

TEST_CASE("adamw gives the same bits on any number of threads", "[unit]") {
    constexpr std::int64_t kCount = 100003;
    const auto g = random_tensor(kFp32, {kCount}, 2);
    std::vector<TestTensor> parameters;
    for (const int threads : {1, 2, 3}) {
        TestQueue queue(threads);
        parameters.push_back(random_tensor(kFp32, {kCount}, 1));
        auto m = random_tensor(kFp32, {kCount}, 3);
        auto v = random_tensor(kFp32, {kCount}, 4, 0, 0.5);
        kernels::adamw(queue, {.parameters = parameters.back(),
                               .gradients = g,
                               .first_moments = m,
                               .second_moments = v,
                               .learning_rate = 0.1,
                               .step = 3});
    }
    CHECK(same_bits(parameters[0], parameters[1]));
    CHECK(same_bits(parameters[0], parameters[2]));
}

TEST_CASE("fill_zero fills every element and nothing else", "[unit]") {
    const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kUInt8);
    const auto padding = GENERATE(as<std::int64_t>{}, 0, 5);
    const auto rows = GENERATE(as<std::int64_t>{}, 0, 1, 70, 3000);
    TestQueue queue(2);
    auto x = nan_tensor(dtype, {rows, 101}, 101 + padding);
    kernels::fill_zero(queue, x);
    CHECK(max_error(x, Values(static_cast<std::size_t>(rows * 101))) == 0);
    CHECK(x.guards_intact());
}

TEST_CASE("the optimizer refuses what does not fit", "[unit]") {
    TestQueue queue(1);
    auto a = random_tensor(kFp32, {8}, 1);
    auto b = random_tensor(kFp32, {7}, 1);
    auto out = byte_tensor(8);
    CHECK_THROWS_WITH(kernels::adamw(queue, {a, b, a, a}),
                      "adamw: gradients has shape [7], not [8]");
    CHECK_THROWS_AS(
        kernels::adamw(
            queue,
            {.parameters = a, .gradients = a, .first_moments = a, .second_moments = a, .step = 0}),
        ShapeError);
    CHECK_THROWS_WITH(kernels::sum_of_squares(queue, a, out, Tensor()),
                      "sum_of_squares has 0 bytes of workspace and needs 8");
}
