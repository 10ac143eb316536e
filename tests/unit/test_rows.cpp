// Activations, addition and rotation against the double-precision loops; the two norms have a file
// of their own.
#include <bit>
#include <cmath>
#include <limits>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/activation.hpp"
#include "kernels/rope.hpp"

using namespace dcp;
using namespace dcp::test;

namespace {

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;

// Element-wise: about `roundings` operations of half an epsilon each in fp32, and the rounding of
// what is stored.
double tolerance(DType stored, double roundings) {
    return epsilon(stored) + roundings / 2 * epsilon(kFp32);
}

std::int64_t any_rows() {
    return GENERATE(as<std::int64_t>{}, 0, 1, 33);
}
std::int64_t any_columns() {
    return GENERATE(as<std::int64_t>{}, 1, 2, 3, 4, 5, 6, 7, 31, 33, 257, 3000);
}

}  // namespace

TEST_CASE("swiglu matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const std::int64_t T = any_rows();
    const std::int64_t F = any_columns();
    const DType in = GENERATE(kFp32, kBf16);
    const DType out = GENERATE(kFp32, kBf16);
    CAPTURE(T, F, name(in), name(out), instruction_set_name(instruction_set));
    TestQueue queue(2);
    const auto gate_up = random_tensor(in, {T, 2 * F}, 1, 4, 0, 2 * F + 3);
    auto y = nan_tensor(out, {T, F}, F + 1);
    kernels::swiglu_forward(queue, {.gate_up_TF = gate_up, .y_TF = y});
    CHECK(relative_error(y, reference::swiglu(gate_up.values(), F)) <= tolerance(out, 12));
    CHECK(y.guards_intact());

    const auto d_y = random_tensor(out, {T, F}, 2);
    auto d_gate_up = nan_tensor(in, {T, 2 * F}, 2 * F + 1);
    kernels::swiglu_backward(queue,
                             {.d_y_TF = d_y, .gate_up_TF = gate_up, .d_gate_up_TF = d_gate_up});
    const Values expected = reference::swiglu_backward(d_y.values(), gate_up.values(), F);
    CHECK(relative_error(d_gate_up, expected) <= tolerance(in, 16));
    CHECK(d_gate_up.guards_intact());

    auto in_place = value_tensor(in, {T, 2 * F}, gate_up.values());
    kernels::swiglu_backward(queue,
                             {.d_y_TF = d_y, .gate_up_TF = in_place, .d_gate_up_TF = in_place});
    CHECK(same_bits(in_place, d_gate_up));
}

TEST_CASE("gelu matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const std::int64_t T = any_rows();
    const std::int64_t F = any_columns();
    const DType in = GENERATE(kFp32, kBf16);
    const DType out = GENERATE(kFp32, kBf16);
    CAPTURE(T, F, name(in), name(out), instruction_set_name(instruction_set));
    TestQueue queue(2);
    const auto x = random_tensor(in, {T, F}, 1, 2, 0, F + 3);
    auto y = nan_tensor(out, {T, F}, F + 1);
    kernels::gelu_forward(queue, {.x_TF = x, .y_TF = y});
    CHECK(relative_error(y, reference::gelu(x.values())) <= tolerance(out, 16));
    CHECK(y.guards_intact());

    const auto d_y = random_tensor(out, {T, F}, 2);
    auto d_x = nan_tensor(in, {T, F}, F + 1);
    kernels::gelu_backward(queue, {.d_y_TF = d_y, .x_TF = x, .d_x_TF = d_x});
    const Values expected = reference::gelu_backward(d_y.values(), x.values());
    CHECK(relative_error(d_x, expected) <= tolerance(in, 24));
    CHECK(d_x.guards_intact());

    auto in_place = value_tensor(in, {T, F}, x.values());
    kernels::gelu_backward(queue, {.d_y_TF = d_y, .x_TF = in_place, .d_x_TF = in_place});
    CHECK(same_bits(in_place, d_x));
}

TEST_CASE("activations are right at the ends of the number line", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    TestQueue queue(1);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Values points{-1e4, -100, -88.5, -87.2, -20, -0.0, 20, 87.2, 88.5, 100, 1e4, nan};
    const auto F = static_cast<std::int64_t>(points.size());
    Values gate_up = points;
    gate_up.insert(gate_up.end(), points.size(), 1.0);
    auto y = nan_tensor(kFp32, {1, F});
    kernels::swiglu_forward(queue,
                            {.gate_up_TF = value_tensor(kFp32, {1, 2 * F}, gate_up), .y_TF = y});
    const Values silu = y.values();
    auto z = nan_tensor(kFp32, {1, F});
    kernels::gelu_forward(queue, {.x_TF = value_tensor(kFp32, {1, F}, points), .y_TF = z});
    const Values gelu = z.values();
    auto slope = nan_tensor(kFp32, {1, F});
    const auto ones = value_tensor(kFp32, {1, F}, Values(points.size(), 1));
    kernels::gelu_backward(queue, {ones, value_tensor(kFp32, {1, F}, points), slope});
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        CAPTURE(points[i]);
        // Below -88.3 exp(-x) is held at exp(88.3) = 2.2e38, which leaves |x| / 2.2e38.
        const double below = 1e4 / 2.2e38;
        CHECK(std::abs(silu[i] - points[i] / (1 + std::exp(-points[i]))) <=
              below + 8 * epsilon(kFp32) * std::abs(silu[i]));
        CHECK(std::abs(gelu[i] - reference::gelu({points[i]})[0]) <=
              below + 16 * epsilon(kFp32) * std::abs(gelu[i]));
        CHECK(std::abs(slope.values()[i] - reference::gelu_backward({1}, {points[i]})[0]) <= 1e-6);
    }
    CHECK(std::isnan(silu.back()));
    CHECK(std::isnan(gelu.back()));
}

TEST_CASE("add adds and converts", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const std::int64_t T = any_rows();
    const std::int64_t C = any_columns();
    const DType a_type = GENERATE(kFp32, kBf16);
    const DType y_type = GENERATE(kFp32, kBf16);
    CAPTURE(T, C, name(a_type), name(y_type), instruction_set_name(instruction_set));
    TestQueue queue(2);
    const auto a = random_tensor(a_type, {T, C}, 1, 1, 0, C + 3);
    const auto b = random_tensor(y_type, {T, C}, 2);
    auto y = nan_tensor(y_type, {T, C}, C + 2);
    kernels::add(queue, {.a_TC = a, .b_TC = b, .y_TC = y});
    Values expected = a.values();
    const Values b_values = b.values();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const float sum = static_cast<float>(expected[i]) + static_cast<float>(b_values[i]);
        expected[i] =
            static_cast<double>(y_type == kBf16 ? static_cast<float>(BFloat16(sum)) : sum);
    }
    CHECK(y.values() == expected);  // one rounding: exact
    CHECK(y.guards_intact());
}

TEST_CASE("vector stores round to bf16 as the scalar conversion does", "[unit][cpu-only]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    // Halfway cases to both sides, denormals, infinities, NaN, the largest float.
    std::vector<std::uint32_t> words{0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x00000001,
                                     0x00008000, 0x80018000, 0x7f800000, 0xff800000, 0x7f7fffff,
                                     0x7f800001, 0xffc00000, 0x00000000, 0x80000000};
    for (std::uint32_t i = 0; i < 5000; ++i) {
        words.push_back(i * 0x9e3779b9U);
    }
    const auto C = static_cast<std::int64_t>(words.size());
    auto a = nan_tensor(kFp32, {1, C});
    for (std::size_t i = 0; i < words.size(); ++i) {
        a.tensor().as<float>()[i] = std::bit_cast<float>(words[i]);
    }
    // Minus zero changes no number, not even plus or minus zero, nor which NaN it is.
    const auto minus_zero = value_tensor(kFp32, {1, C}, Values(words.size(), -0.0));
    auto y = nan_tensor(kBf16, {1, C});
    TestQueue queue(1);
    kernels::add(queue, {.a_TC = a, .b_TC = minus_zero, .y_TC = y});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto expected = BFloat16(std::bit_cast<float>(words[i])).bits;
        wrong += y.tensor().as<BFloat16>()[i].bits != expected ? 1U : 0U;
    }
    CHECK(wrong == 0);
}

TEST_CASE("rope turns heads inside a fused activation and back", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const auto T = any_rows();
    const auto H = GENERATE(as<std::int64_t>{}, 1, 3);
    const auto D = GENERATE(as<std::int64_t>{}, 2, 6, 14, 32, 66, 128);
    const DType stored = GENERATE(kFp32, kBf16);
    CAPTURE(T, H, D, name(stored), instruction_set_name(instruction_set));
    constexpr double kTheta = 10000;
    constexpr std::int64_t P = 3000;
    TestQueue queue(2);
    auto cosines = nan_tensor(kFp32, {P, D / 2});
    auto sines = nan_tensor(kFp32, {P, D / 2});
    kernels::rope_fill_table(queue, {cosines, sines}, kTheta);
    std::vector<std::int32_t> positions;
    for (std::int64_t t = 0; t < T; ++t) {
        positions.push_back(static_cast<std::int32_t>(t * 89 % P));
    }
    const auto positions_T = int_tensor(positions);
    auto x = random_tensor(stored, {T, H, D}, 1, 1, 0, H * D + 5);
    const Values before = x.values();

    kernels::rope(queue, {x, positions_T, cosines, sines, false});
    const Values expected = reference::rope(before, positions, D, kTheta, false);
    CHECK(relative_error(x, expected) <= tolerance(stored, 4));
    CHECK(x.guards_intact());

    kernels::rope(queue, {x, positions_T, cosines, sines, true});
    CHECK(relative_error(x, before) <= 2 * tolerance(stored, 4));
}

TEST_CASE("rope tables are right far out", "[unit]") {
    TestQueue queue(2);
    constexpr std::int64_t P = 100001;
    auto cosines = nan_tensor(kFp32, {P, 2});
    auto sines = nan_tensor(kFp32, {P, 2});
    kernels::rope_fill_table(queue, {cosines, sines}, 500000);
    const double angle = 100000 * std::pow(500000.0, -0.5);
    CHECK(std::abs(cosines.values()[2 * 100000] - std::cos(100000.0)) <= epsilon(kFp32));
    CHECK(std::abs(sines.values()[2 * 100000 + 1] - std::sin(angle)) <= epsilon(kFp32));
    CHECK((cosines.guards_intact() && sines.guards_intact()));
}

TEST_CASE("row-wise operations give the same bits on any number of threads", "[unit]") {
    const DType stored = GENERATE(kFp32, kBf16);
    constexpr std::int64_t T = 1301;
    constexpr std::int64_t F = 97;
    const auto gate_up = random_tensor(stored, {T, 2 * F}, 1);
    const auto d_y = random_tensor(stored, {T, F}, 2);
    std::vector<Values> results;
    for (const int threads : {1, 2, 3}) {
        TestQueue queue(threads);
        auto y = nan_tensor(stored, {T, F});
        auto d_gate_up = nan_tensor(stored, {T, 2 * F});
        auto d_x = nan_tensor(stored, {T, F});
        kernels::swiglu_forward(queue, {gate_up, y});
        kernels::swiglu_backward(queue, {d_y, gate_up, d_gate_up});
        kernels::gelu_backward(queue, {d_y, y, d_x});
        kernels::gelu_forward(queue, {y, y});
        Values all = y.values();
        for (const auto* part : {&d_gate_up, &d_x}) {
            const Values values = part->values();
            all.insert(all.end(), values.begin(), values.end());
        }
        results.push_back(all);
    }
    CHECK(results[0] == results[1]);  // also says that nothing is NaN
    CHECK(results[0] == results[2]);
}

TEST_CASE("the activation comparison notices one wrong element", "[unit]") {
    const auto x = random_tensor(kFp32, {33, 257}, 1);
    Values y = reference::gelu(x.values());
    const Values expected = y;
    y[33 * 257 - 1] += 0.01;
    CHECK_FALSE(relative_error(y, expected) <= tolerance(kFp32, 16));
}

TEST_CASE("row-wise operations refuse what does not fit", "[unit]") {
    TestQueue queue(1);
    auto a = random_tensor(kFp32, {3, 8}, 1);
    auto odd = random_tensor(kFp32, {3, 1, 7}, 1);
    CHECK_THROWS_WITH(kernels::swiglu_forward(queue, {a, a}),
                      "swiglu_forward: gate_up_TF has shape [3, 8], not [3, 16]");
    CHECK_THROWS_WITH(kernels::add(queue, {a, ConstTensor(nullptr, kFp32, {3, 8}), a}),
                      "add: b_TC [3, 8] points nowhere");
    CHECK_THROWS_WITH(kernels::rope(queue, {odd, int_tensor({0, 1, 2}), a, a}),
                      "rope: x_THD must have an even head dimension");
}
