// Norms of rows that take two and four vectors a thread on the CUDA backend; the shapes that both
// backends are tested on are narrower (tests/unit/test_norms.cpp).
#include <cmath>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/layernorm.hpp"
#include "kernels/rmsnorm.hpp"

namespace dcp::test {
namespace {

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;
constexpr std::int64_t T = 3;
constexpr double kEpsilon = 1e-5;

// As in the unit tests: sums of C random terms lose about the square root of C roundings.
double tolerance(DType stored, std::int64_t C) {
    return epsilon(stored) + (4 + std::sqrt(static_cast<double>(C))) * epsilon(kFp32);
}

Values plus(Values a, const Values& b) {
    for (std::size_t i = 0; i < a.size(); i++) {
        a[i] += b[i];
    }
    return a;
}

TEST_CASE("cuda norms: wide rows", "[emulated]") {
    TestQueue queue(1);
    const auto C = GENERATE(as<std::int64_t>{}, 4100, 9001, 16384);
    const DType type = GENERATE(kFp32, kBf16);
    CAPTURE(C, name(type));
    const TestTensor x = random_tensor(type, {T, C}, 1, 2, 1.5, C + 8);
    const TestTensor weight = random_tensor(kFp32, {C}, 2);
    const TestTensor bias = random_tensor(kFp32, {C}, 3);
    const TestTensor d_y = random_tensor(type, {T, C}, 4);
    const TestTensor residual = random_tensor(type, {T, C}, 5);
    TestTensor y = nan_tensor(type, {T, C}, C + 3);
    TestTensor d_x = nan_tensor(type, {T, C}, C + 16);
    TestTensor mean = nan_tensor(kFp32, {T});
    TestTensor inverse = nan_tensor(kFp32, {T});
    TestTensor d_weight = nan_tensor(kFp32, {C});
    TestTensor d_bias = nan_tensor(kFp32, {C});
    TestTensor workspace = byte_tensor(kernels::layernorm_backward_workspace_bytes(T, C));
    const auto mode = kernels::GradMode::kOverwrite;

    kernels::rmsnorm_forward(queue, {x, weight, y, inverse, static_cast<float>(kEpsilon)});
    CHECK(relative_error(y, reference::rmsnorm(x.values(), weight.values(), kEpsilon).y) <=
          tolerance(type, C));
    kernels::rmsnorm_backward(queue,
                              {d_y, x, weight, inverse, residual, d_x, d_weight, mode, workspace});
    const auto rms =
        reference::rmsnorm_backward(d_y.values(), x.values(), weight.values(), kEpsilon);
    CHECK(relative_error(d_x, plus(rms.d_x, residual.values())) <= tolerance(type, C));
    CHECK(relative_error(d_weight, rms.d_weight) <= 8 * epsilon(kFp32));

    kernels::layernorm_forward(queue,
                               {x, weight, bias, y, mean, inverse, static_cast<float>(kEpsilon)});
    CHECK(relative_error(
              y, reference::layernorm(x.values(), weight.values(), bias.values(), kEpsilon).y) <=
          tolerance(type, C));
    kernels::layernorm_backward(
        queue, {d_y, x, weight, mean, inverse, residual, d_x, d_weight, d_bias, mode, workspace});
    const auto layer =
        reference::layernorm_backward(d_y.values(), x.values(), weight.values(), kEpsilon);
    CHECK(relative_error(d_x, plus(layer.d_x, residual.values())) <= tolerance(type, C));
    CHECK(relative_error(d_weight, layer.d_weight) <= 16 * epsilon(kFp32));
    CHECK(relative_error(d_bias, layer.d_bias) <= 8 * epsilon(kFp32));
    CHECK((y.guards_intact() && d_x.guards_intact() && d_weight.guards_intact() &&
           d_bias.guards_intact() && workspace.guards_intact()));
}

TEST_CASE("cuda norms: rows beyond the registers are refused by name", "[emulated]") {
    TestQueue queue(1);
    constexpr std::int64_t C = 16385;
    const TestTensor x = random_tensor(kFp32, {1, C}, 1);
    const TestTensor weight = random_tensor(kFp32, {C}, 2);
    TestTensor y = nan_tensor(kFp32, {1, C});
    TestTensor inverse = nan_tensor(kFp32, {1});
    CHECK_THROWS_WITH(kernels::rmsnorm_forward(queue, {x, weight, y, inverse}),
                      Catch::Contains("16385") && Catch::Contains("16384"));
}

}  // namespace
}  // namespace dcp::test
