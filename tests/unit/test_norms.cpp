// RMSNorm and LayerNorm against the double-precision loops: fp32, bf16 and mixed storage, tails of
// vectors, strided rows, overwrite and accumulate, any number of threads.
#include <cmath>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/layernorm.hpp"
#include "kernels/rmsnorm.hpp"

using namespace dcp;
using namespace dcp::test;
using kernels::GradMode;

namespace {

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;
constexpr float kEpsilon = 1e-5F;

// Every element of a result comes from sums of n products: each rounding is at most half an epsilon
// and sums of random terms lose about the square root of n of them; the result is rounded once more
// where it is stored.
double tolerance(DType stored, std::int64_t n) {
    return epsilon(stored) + (4 + std::sqrt(static_cast<double>(n))) * epsilon(kFp32);
}

struct Sizes {
    std::int64_t T;
    std::int64_t C;
};

Sizes any_sizes() {
    const auto T = GENERATE(as<std::int64_t>{}, 0, 1, 7, 131);
    const auto C = GENERATE(as<std::int64_t>{}, 1, 2, 7, 31, 33, 257);
    return {T, C};
}

// What a layer norm needs; a mean that is not zero, so that forgetting it shows.
struct Problem {
    Problem(Sizes sizes, DType x_type, DType y_type)
        : x(random_tensor(x_type, {sizes.T, sizes.C}, 1, 2, 1.5, sizes.C + 3)),
          weight(random_tensor(kFp32, {sizes.C}, 2)),
          bias(random_tensor(kFp32, {sizes.C}, 3)),
          d_y(random_tensor(y_type, {sizes.T, sizes.C}, 4)),
          residual(random_tensor(x_type, {sizes.T, sizes.C}, 5)) {}
    TestTensor x;
    TestTensor weight;
    TestTensor bias;
    TestTensor d_y;
    TestTensor residual;
};

// The terms that d_x is the difference of: r g and the residual. With one column (two for
// LayerNorm) they cancel almost wholly, so errors are compared with these and not with d_x.
double size_of_terms(const Problem& problem, const Values& inverse, bool has_residual) {
    Values terms = problem.d_y.values();
    const Values weight = problem.weight.values();
    for (std::size_t i = 0; i < terms.size(); ++i) {
        terms[i] *= weight[i % weight.size()] * inverse[i / weight.size()];
    }
    return norm(terms) + (has_residual ? norm(problem.residual.values()) : 0);
}

Values sum_of(const Values& a, const Values& b) {
    Values sum = a;
    for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += b[i];
    }
    return sum;
}

}  // namespace

TEST_CASE("rmsnorm matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const Sizes sizes = any_sizes();
    const DType x_type = GENERATE(kFp32, kBf16);
    const DType y_type = GENERATE(kFp32, kBf16);
    const auto [T, C] = sizes;
    CAPTURE(T, C, name(x_type), name(y_type), instruction_set_name(instruction_set));
    const Problem problem(sizes, x_type, y_type);
    auto y = nan_tensor(y_type, {T, C}, C + 5);
    auto inverse_rms = nan_tensor(kFp32, {T});
    TestQueue queue(2);

    kernels::rmsnorm_forward(queue, {.x_TC = problem.x,
                                     .weight_C = problem.weight,
                                     .y_TC = y,
                                     .inverse_rms_T = inverse_rms,
                                     .epsilon = kEpsilon});

    const auto expected = reference::rmsnorm(problem.x.values(), problem.weight.values(),
                                             static_cast<double>(kEpsilon));
    CHECK(relative_error(y, expected.y) <= tolerance(y_type, C));
    CHECK(max_error(inverse_rms, expected.inverse) <= tolerance(kFp32, C));
    CHECK((y.guards_intact() && inverse_rms.guards_intact()));
}

TEST_CASE("rmsnorm backward matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const Sizes sizes = any_sizes();
    const DType x_type = GENERATE(kFp32, kBf16);
    const DType y_type = GENERATE(kFp32, kBf16);
    const GradMode mode = GENERATE(GradMode::kOverwrite, GradMode::kAccumulate);
    const auto [T, C] = sizes;
    CAPTURE(T, C, name(x_type), name(y_type), instruction_set_name(instruction_set));
    const Problem problem(sizes, x_type, y_type);
    const bool has_residual = mode == GradMode::kAccumulate;
    const auto forward = reference::rmsnorm(problem.x.values(), problem.weight.values(),
                                            static_cast<double>(kEpsilon));
    const auto inverse_rms = value_tensor(kFp32, {T}, forward.inverse);
    auto d_x = nan_tensor(x_type, {T, C}, C + 1);
    auto d_weight =
        mode == GradMode::kOverwrite ? nan_tensor(kFp32, {C}) : random_tensor(kFp32, {C}, 6);
    const Values before = d_weight.values();
    auto workspace = byte_tensor(kernels::rmsnorm_backward_workspace_bytes(T, C));
    TestQueue queue(2);

    kernels::rmsnorm_backward(queue,
                              {.d_y_TC = problem.d_y,
                               .x_TC = problem.x,
                               .weight_C = problem.weight,
                               .inverse_rms_T = inverse_rms,
                               .residual_TC = has_residual ? problem.residual : ConstTensor(),
                               .d_x_TC = d_x,
                               .d_weight_C = d_weight,
                               .d_weight_mode = mode,
                               .workspace = workspace});

    auto expected =
        reference::rmsnorm_backward(problem.d_y.values(), problem.x.values(),
                                    problem.weight.values(), static_cast<double>(kEpsilon));
    if (has_residual) {
        expected.d_x = sum_of(expected.d_x, problem.residual.values());
        expected.d_weight = sum_of(expected.d_weight, before);
    }
    CHECK(error_norm(d_x, expected.d_x) <=
          tolerance(x_type, C) * size_of_terms(problem, forward.inverse, has_residual));
    // Sums over tokens, likewise against the size of their terms: x r is about 1.
    const double size = norm(problem.d_y.values()) + norm(before);
    CHECK(error_norm(d_weight, expected.d_weight) <= tolerance(kFp32, T) * size);
    CHECK((d_x.guards_intact() && d_weight.guards_intact() && workspace.guards_intact()));
}

TEST_CASE("layernorm matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const Sizes sizes = any_sizes();
    const DType x_type = GENERATE(kFp32, kBf16);
    const DType y_type = GENERATE(kFp32, kBf16);
    const auto [T, C] = sizes;
    CAPTURE(T, C, name(x_type), name(y_type), instruction_set_name(instruction_set));
    const Problem problem(sizes, x_type, y_type);
    auto y = nan_tensor(y_type, {T, C}, C + 5);
    auto mean = nan_tensor(kFp32, {T});
    auto inverse_std = nan_tensor(kFp32, {T});
    TestQueue queue(2);

    kernels::layernorm_forward(queue, {.x_TC = problem.x,
                                       .weight_C = problem.weight,
                                       .bias_C = problem.bias,
                                       .y_TC = y,
                                       .mean_T = mean,
                                       .inverse_std_T = inverse_std,
                                       .epsilon = kEpsilon});

    const auto expected =
        reference::layernorm(problem.x.values(), problem.weight.values(), problem.bias.values(),
                             static_cast<double>(kEpsilon));
    CHECK(relative_error(mean, expected.mean) <= tolerance(kFp32, C));
    // The mean is off by half an epsilon of |mean| ~ 2; two columns that happen to be close give a
    // deviation far smaller than that.
    const double condition = C < 7 ? 100 : 1;
    CHECK(relative_error(y, expected.y) <= condition * tolerance(y_type, C));
    CHECK(relative_error(inverse_std, expected.inverse) <= condition * tolerance(kFp32, C));
    CHECK((y.guards_intact() && mean.guards_intact() && inverse_std.guards_intact()));
}

TEST_CASE("layernorm backward matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const Sizes sizes = any_sizes();
    const DType x_type = GENERATE(kFp32, kBf16);
    const DType y_type = GENERATE(kFp32, kBf16);
    const GradMode mode = GENERATE(GradMode::kOverwrite, GradMode::kAccumulate);
    const auto [T, C] = sizes;
    CAPTURE(T, C, name(x_type), name(y_type), instruction_set_name(instruction_set));
    const Problem problem(sizes, x_type, y_type);
    const bool has_residual = mode == GradMode::kAccumulate;
    const auto forward = reference::layernorm(problem.x.values(), problem.weight.values(),
                                              problem.bias.values(), static_cast<double>(kEpsilon));
    const auto mean = value_tensor(kFp32, {T}, forward.mean);
    const auto inverse_std = value_tensor(kFp32, {T}, forward.inverse);
    auto d_x = nan_tensor(x_type, {T, C}, C + 1);
    const bool overwrites = mode == GradMode::kOverwrite;
    auto d_weight = overwrites ? nan_tensor(kFp32, {C}) : random_tensor(kFp32, {C}, 6);
    auto d_bias = overwrites ? nan_tensor(kFp32, {C}) : random_tensor(kFp32, {C}, 7);
    const Values weight_before = d_weight.values();
    const Values bias_before = d_bias.values();
    auto workspace = byte_tensor(kernels::layernorm_backward_workspace_bytes(T, C));
    TestQueue queue(2);

    kernels::layernorm_backward(queue,
                                {.d_y_TC = problem.d_y,
                                 .x_TC = problem.x,
                                 .weight_C = problem.weight,
                                 .mean_T = mean,
                                 .inverse_std_T = inverse_std,
                                 .residual_TC = has_residual ? problem.residual : ConstTensor(),
                                 .d_x_TC = d_x,
                                 .d_weight_C = d_weight,
                                 .d_bias_C = d_bias,
                                 .d_weight_mode = mode,
                                 .workspace = workspace});

    auto expected =
        reference::layernorm_backward(problem.d_y.values(), problem.x.values(),
                                      problem.weight.values(), static_cast<double>(kEpsilon));
    if (has_residual) {
        expected.d_x = sum_of(expected.d_x, problem.residual.values());
        expected.d_weight = sum_of(expected.d_weight, weight_before);
        expected.d_bias = sum_of(expected.d_bias, bias_before);
    }
    const double condition = C < 7 ? 100 : 1;
    CHECK(error_norm(d_x, expected.d_x) <=
          condition * tolerance(x_type, C) * size_of_terms(problem, forward.inverse, has_residual));
    // Sums over tokens, likewise against the size of their terms: n is about 1.
    const double size = norm(problem.d_y.values()) + norm(bias_before);
    CHECK(error_norm(d_weight, expected.d_weight) <= condition * tolerance(kFp32, T) * size);
    CHECK(error_norm(d_bias, expected.d_bias) <= tolerance(kFp32, T) * size);
    CHECK((d_x.guards_intact() && d_weight.guards_intact() && d_bias.guards_intact() &&
           workspace.guards_intact()));
}

TEST_CASE("norms work in place and give the same bits on any number of threads", "[unit]") {
    constexpr std::int64_t T = 131;
    constexpr std::int64_t C = 65;
    const DType stored = GENERATE(kFp32, kBf16);
    std::vector<Values> results;
    for (const int threads : {1, 2, 3}) {
        TestQueue queue(threads);
        const Problem problem({T, C}, stored, stored);
        auto x = random_tensor(stored, {T, C}, 1, 2, 1.5);
        auto inverse = nan_tensor(kFp32, {T});
        kernels::rmsnorm_forward(queue, {x, problem.weight, x, inverse, kEpsilon});
        auto d_y = random_tensor(stored, {T, C}, 4);  // d_x takes its place
        auto d_weight = nan_tensor(kFp32, {C});
        auto workspace = byte_tensor(kernels::layernorm_backward_workspace_bytes(T, C));
        kernels::rmsnorm_backward(queue, {d_y,
                                          problem.x,
                                          problem.weight,
                                          inverse,
                                          {},
                                          d_y,
                                          d_weight,
                                          GradMode::kOverwrite,
                                          workspace});
        auto residual = random_tensor(stored, {T, C}, 5);  // d_x takes its place
        auto mean = nan_tensor(kFp32, {T});
        auto y = nan_tensor(stored, {T, C});
        kernels::layernorm_forward(
            queue, {problem.x, problem.weight, problem.bias, y, mean, inverse, kEpsilon});
        auto d_layer_weight = nan_tensor(kFp32, {C});
        auto d_bias = nan_tensor(kFp32, {C});
        kernels::layernorm_backward(
            queue, {problem.d_y, problem.x, problem.weight, mean, inverse, residual, residual,
                    d_layer_weight, d_bias, GradMode::kOverwrite, workspace});
        Values all;
        for (const auto* part : {&x, &d_y, &d_weight, &y, &residual, &d_layer_weight, &d_bias}) {
            const Values values = part->values();
            all.insert(all.end(), values.begin(), values.end());
        }
        results.push_back(all);
    }
    CHECK(results[0] == results[1]);  // also says that nothing is NaN
    CHECK(results[0] == results[2]);
}

TEST_CASE("a token's row does not depend on the rows around it", "[unit]") {
    constexpr std::int64_t C = 257;
    const Problem problem({33, C}, kFp32, kFp32);
    TestQueue queue(2);
    auto y = nan_tensor(kFp32, {33, C});
    auto inverse = nan_tensor(kFp32, {33});
    kernels::rmsnorm_forward(queue, {problem.x, problem.weight, y, inverse, kEpsilon});
    auto alone = nan_tensor(kFp32, {1, C});
    auto inverse_alone = nan_tensor(kFp32, {1});
    kernels::rmsnorm_forward(
        queue, {problem.x.tensor().rows(32, 1), problem.weight, alone, inverse_alone, kEpsilon});
    CHECK(same_bits(alone, y.tensor().rows(32, 1)));
}

TEST_CASE("the norm comparison notices one wrong element", "[unit]") {
    const Problem problem({33, 257}, kFp32, kFp32);
    auto y = reference::rmsnorm(problem.x.values(), problem.weight.values(), 1e-5).y;
    const Values expected = y;
    y.back() *= 1.01;  // the last element of the last tail
    CHECK_FALSE(relative_error(y, expected) <= tolerance(kFp32, 257));
}

TEST_CASE("norms refuse what does not fit", "[unit]") {
    const Problem problem({3, 8}, kFp32, kFp32);
    TestQueue queue(1);
    auto y = nan_tensor(kFp32, {3, 8});
    auto inverse = nan_tensor(kFp32, {3});
    auto narrow = nan_tensor(kFp32, {3, 7});
    CHECK_THROWS_WITH(kernels::rmsnorm_forward(queue, {problem.x, problem.weight, narrow, inverse}),
                      "rmsnorm_forward: y_TC has shape [3, 7], not [3, 8]");
    auto integers = nan_tensor(DType::kInt32, {3, 8});
    CHECK_THROWS_WITH(
        kernels::rmsnorm_forward(queue, {problem.x, problem.weight, integers, inverse}),
        "rmsnorm_forward: y_TC holds int32, not fp32 or bf16");
    auto d_weight = nan_tensor(kFp32, {8});
    CHECK_THROWS_AS(kernels::rmsnorm_backward(queue, {problem.d_y,
                                                      problem.x,
                                                      problem.weight,
                                                      inverse,
                                                      {},
                                                      y,
                                                      d_weight,
                                                      GradMode::kOverwrite,
                                                      Tensor()}),
                    ShapeError);
    CHECK(std::isnan(y.values()[0]));
}
