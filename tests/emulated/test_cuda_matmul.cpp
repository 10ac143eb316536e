// The plain matrix product of the CUDA backend on the emulator, in the three forms that a linear
// layer needs, against the references of the CPU backend's linear layer.
#include <cmath>
#include <vector>

#include "tests/emulated/emulation.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "kernels/cuda/matmul.hpp"

namespace dcp::test {
namespace {

using kernels::GradMode;
using kernels::cuda::Matmul;
using kernels::cuda::Stored;

struct Sizes {
    std::int64_t M;
    std::int64_t N;
    std::int64_t K;
};

struct Form {
    const char* name;
    Stored a;
    Stored b;
};
constexpr Form kForward{"a b^T", Stored::kPlain, Stored::kTransposed};
constexpr Form kBackwardInput{"a b", Stored::kPlain, Stored::kPlain};
constexpr Form kBackwardWeight{"a^T b", Stored::kTransposed, Stored::kPlain};

// Rows padded to a multiple of eight elements, and eight more.
std::int64_t padded(std::int64_t columns) {
    return (columns + 7) / 8 * 8 + 8;
}

Values transposed(const Values& values, std::int64_t rows, std::int64_t columns) {
    Values result(values.size());
    for (std::int64_t r = 0; r < rows; r++) {
        for (std::int64_t c = 0; c < columns; c++) {
            result[static_cast<std::size_t>(c * rows + r)] =
                values[static_cast<std::size_t>(r * columns + c)];
        }
    }
    return result;
}

// Products of bf16 are exact in fp32, so both types err by the additions alone: K of them, each by
// half an epsilon of fp32 (a whole one where the tensor core rounds towards zero). Independent
// errors add up like the square root; bf16 results are rounded once.
double tolerance(const Sizes& s, DType result) {
    return epsilon(DType::kFloat32) * (2 + std::sqrt(static_cast<double>(s.K))) +
           (result == DType::kBFloat16 ? epsilon(result) / 2 : 0);
}

void check_product(Emulation& emulation,
                   DType dtype,
                   DType result,
                   const Form& form,
                   const Sizes& s,
                   GradMode mode) {
    INFO(fmt::format("{} {} to {}: {} x {} x {}", form.name, name(dtype), name(result), s.M, s.N,
                     s.K));
    const bool a_plain = form.a == Stored::kPlain;
    const bool b_plain = form.b == Stored::kPlain;
    const Shape a_shape = a_plain ? Shape{s.M, s.K} : Shape{s.K, s.M};
    const Shape b_shape = b_plain ? Shape{s.K, s.N} : Shape{s.N, s.K};
    const TestTensor a = random_tensor(dtype, a_shape, 1, 1, 0, padded(a_shape[1]));
    const TestTensor b = random_tensor(dtype, b_shape, 2, 1, 0, padded(b_shape[1]));
    TestTensor c = nan_tensor(result, {s.M, s.N}, s.N + s.N % 3);  // even and odd distances
    Values before(static_cast<std::size_t>(s.M * s.N), 0);
    if (mode == GradMode::kAccumulate) {
        before = random_tensor(result, {s.M, s.N}, 3).values();
        c.set(before);
    }
    kernels::cuda::matmul(
        emulation.queue(),
        {.a = a, .b = b, .c = c, .a_stored = form.a, .b_stored = form.b, .mode = mode});
    emulation.queue().synchronize();
    const Values a_mk = a_plain ? a.values() : transposed(a.values(), s.K, s.M);
    const Values b_nk = b_plain ? transposed(b.values(), s.K, s.N) : b.values();
    Values expected = s.K > 0 ? reference::linear(a_mk, b_nk, s.N, s.K) : Values(before.size(), 0);
    for (std::size_t i = 0; i < expected.size(); i++) {
        expected[i] += before[i];
    }
    CHECK(relative_error(c, expected) < tolerance(s, result));
    CHECK(c.guards_intact());
}

TEST_CASE("cuda matmul: every form, type and tail", "[emulated]") {
    Emulation emulation;
    const std::vector<Sizes> all{
        {1, 1, 1}, {64, 64, 32}, {65, 33, 40}, {7, 130, 70}, {100, 66, 129}};
    for (const Form& form : {kForward, kBackwardInput, kBackwardWeight}) {
        for (const Sizes& sizes : all) {
            for (const GradMode mode : {GradMode::kOverwrite, GradMode::kAccumulate}) {
                check_product(emulation, DType::kFloat32, DType::kFloat32, form, sizes, mode);
                check_product(emulation, DType::kBFloat16, DType::kFloat32, form, sizes, mode);
                check_product(emulation, DType::kBFloat16, DType::kBFloat16, form, sizes, mode);
            }
        }
    }
    CHECK(emulation.counters().mma > 0);
    CHECK(emulation.counters().bank_conflicts == 0);
}

TEST_CASE("cuda matmul: right under every schedule and both models of the tensor core",
          "[emulated]") {
    using cuda_emu::MmaModel;
    using cuda_emu::Schedule;
    for (const Schedule schedule :
         {Schedule::kForward, Schedule::kReverse, Schedule::kWarpByWarp}) {
        for (const MmaModel mma : {MmaModel::kChainToNearest, MmaModel::kSumToZero}) {
            Emulation emulation(schedule, mma);
            for (const Form& form : {kForward, kBackwardInput, kBackwardWeight}) {
                check_product(emulation, DType::kBFloat16, DType::kFloat32, form, {70, 40, 100},
                              GradMode::kOverwrite);
                check_product(emulation, DType::kFloat32, DType::kFloat32, form, {70, 40, 100},
                              GradMode::kOverwrite);
            }
        }
    }
}

TEST_CASE("cuda matmul: an empty depth gives zeros", "[emulated]") {
    Emulation emulation;
    check_product(emulation, DType::kFloat32, DType::kFloat32, kForward, {5, 3, 0},
                  GradMode::kOverwrite);
    check_product(emulation, DType::kBFloat16, DType::kFloat32, kForward, {5, 3, 0},
                  GradMode::kAccumulate);
}

TEST_CASE("cuda matmul: what does not fit is refused by name", "[emulated]") {
    Emulation emulation;
    const TestTensor a = random_tensor(DType::kBFloat16, {4, 8}, 1, 1, 0, 12);
    const TestTensor b = random_tensor(DType::kBFloat16, {3, 8}, 2);
    const TestTensor short_b = random_tensor(DType::kBFloat16, {3, 7}, 2, 1, 0, 8);
    TestTensor c = nan_tensor(DType::kFloat32, {4, 3});
    const auto multiply = [&](const Matmul& args) {
        kernels::cuda::matmul(emulation.queue(), args);
    };
    CHECK_THROWS_WITH(multiply({.a = a, .b = b, .c = c}),
                      Catch::Contains("matmul: a") && Catch::Contains("16 bytes"));
    CHECK_THROWS_AS(multiply({.a = b, .b = short_b, .c = c}), ShapeError);
    const TestTensor square = random_tensor(DType::kBFloat16, {8, 8}, 1);
    TestTensor square_c = nan_tensor(DType::kFloat32, {8, 8});
    CHECK_THROWS_AS(
        multiply({.a = square, .b = square, .c = square_c, .a_stored = Stored::kTransposed}),
        UnsupportedError);
}

}  // namespace
}  // namespace dcp::test
