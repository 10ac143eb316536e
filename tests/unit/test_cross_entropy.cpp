// Softmax cross-entropy and the embedding, the two ends of a language model.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"

using namespace dcp;
using namespace dcp::test;
using kernels::GradMode;

namespace {

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;

// Every third token is masked, the others cycle through the vocabulary.
std::vector<std::int32_t> targets_for(std::int64_t T, std::int64_t V) {
    std::vector<std::int32_t> targets;
    for (std::int64_t t = 0; t < T; ++t) {
        targets.push_back(t % 3 == 2 ? -1 : static_cast<std::int32_t>((t * 7 + V - 1) % V));
    }
    return targets;
}

// Sums over V of positive terms, in pieces of at most 4096 and in at least four lanes: the error of
// a sum grows with the square root of the terms in a lane. One exp and two roundings besides.
double tolerance(DType stored, std::int64_t V) {
    const auto terms = static_cast<double>(std::min<std::int64_t>(V, 1024));
    return epsilon(stored) + (4 + std::sqrt(terms)) * epsilon(kFp32);
}

}  // namespace

TEST_CASE("cross-entropy matches the double-precision loop", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const auto T = GENERATE(as<std::int64_t>{}, 0, 1, 7, 33);
    const auto V = GENERATE(as<std::int64_t>{}, 1, 2, 3, 31, 33, 70, 257, 8003);
    const DType gradient_type = GENERATE(kFp32, kBf16);
    CAPTURE(T, V, name(gradient_type), instruction_set_name(instruction_set));
    TestQueue queue(2);
    const auto logits = random_tensor(kFp32, {T, V}, 1, 5, 30, V + 3);
    const auto targets = targets_for(T, V);
    const auto targets_T = int_tensor(targets);
    const auto weights = random_tensor(kFp32, {T}, 2);
    auto loss = nan_tensor(kFp32, {T});
    auto d_logits = nan_tensor(gradient_type, {T, V}, V + 1);
    kernels::cross_entropy(queue, {logits, targets_T, weights, loss, d_logits});

    const auto expected = reference::cross_entropy(logits.values(), V, targets, weights.values());
    CHECK(relative_error(loss, expected.loss) <= tolerance(kFp32, V));
    CHECK(relative_error(d_logits, expected.d_logits) <= tolerance(gradient_type, V));
    CHECK((loss.guards_intact() && d_logits.guards_intact()));
    const Values gradient = d_logits.values();
    for (std::int64_t t = 2; t < T; t += 3) {
        CHECK(loss.values()[static_cast<std::size_t>(t)] == 0);
        const auto row = gradient.begin() + t * V;
        CHECK(std::all_of(row, row + V, [](double value) { return value == 0; }));
    }

    auto loss_only = nan_tensor(kFp32, {T});
    kernels::cross_entropy(queue, {logits, targets_T, {}, loss_only, {}});
    CHECK(same_bits(loss_only, loss));

    auto in_place = value_tensor(kFp32, {T, V}, logits.values());
    kernels::cross_entropy(queue, {in_place, targets_T, weights, loss_only, in_place});
    CHECK(same_bits(loss_only, loss));
    CHECK(relative_error(in_place, expected.d_logits) <= tolerance(kFp32, V));
}

TEST_CASE("cross-entropy of extreme logits", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    TestQueue queue(1);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    // Far apart; forbidden words; NaN in a row that counts; NaN in a row that is masked.
    const auto logits = value_tensor(
        kFp32, {4, 3}, {1e30, 0, -1e30, 1, -kInfinity, 1, kNaN, 0, 0, kNaN, kNaN, kNaN});
    auto loss = nan_tensor(kFp32, {4});
    auto d_logits = nan_tensor(kFp32, {4, 3});
    const auto weights = value_tensor(kFp32, {4}, {1, 2, 1, 1});
    kernels::cross_entropy(queue, {logits, int_tensor({0, 2, 1, -1}), weights, loss, d_logits});
    const Values losses = loss.values();
    const Values gradient = d_logits.values();
    CHECK(losses[0] == 0);
    CHECK(losses[1] == Approx(std::log(2)).epsilon(1e-6));
    CHECK(std::isnan(losses[2]));
    CHECK(losses[3] == 0);
    CHECK(Values(gradient.begin(), gradient.begin() + 6) == Values{0, 0, 0, 1, 0, -1});
    CHECK(Values(gradient.end() - 3, gradient.end()) == Values{0, 0, 0});

    // Any NaN, at any place, shows in the loss: these have all bits set. 96 is alone behind the
    // last whole vector.
    const auto at = GENERATE(as<std::int64_t>{}, 0, 50, 96, 99);
    auto nan_among_numbers = random_tensor(kFp32, {1, at == 96 ? 97 : 100}, 1);
    std::memset(nan_among_numbers.tensor().as<float>() + at, 0xff, 4);
    kernels::cross_entropy(queue,
                           {nan_among_numbers, int_tensor({7}), {}, loss.tensor().rows(0, 1), {}});
    CAPTURE(at, instruction_set_name(instruction_set));
    CHECK(std::isnan(loss.values()[0]));
}

TEST_CASE("cross-entropy gives the same bits on any number of threads", "[unit]") {
    constexpr std::int64_t T = 301;
    constexpr std::int64_t V = 257;
    const auto logits = random_tensor(kFp32, {T, V}, 1, 3);
    const auto targets = int_tensor(targets_for(T, V));
    const auto weights = random_tensor(kFp32, {T}, 2);
    std::vector<TestTensor> losses;
    std::vector<TestTensor> gradients;
    for (const int threads : {1, 2, 3}) {
        TestQueue queue(threads);
        losses.push_back(nan_tensor(kFp32, {T}));
        gradients.push_back(nan_tensor(kFp32, {T, V}));
        kernels::cross_entropy(queue, {logits, targets, weights, losses.back(), gradients.back()});
    }
    CHECK((same_bits(losses[0], losses[1]) && same_bits(losses[0], losses[2])));
    CHECK((same_bits(gradients[0], gradients[1]) && same_bits(gradients[0], gradients[2])));
}

TEST_CASE("embedding copies rows and adds gradients in order", "[unit]") {
    const auto instruction_set = GENERATE(from_range(instruction_sets_to_test()));
    const UseInstructionSet use(instruction_set);
    const auto T = GENERATE(as<std::int64_t>{}, 0, 1, 33, 500);
    const auto C = GENERATE(as<std::int64_t>{}, 1, 7, 31, 33, 257);
    const DType stored = GENERATE(kFp32, kBf16);
    const GradMode mode = GENERATE(GradMode::kOverwrite, GradMode::kAccumulate);
    constexpr std::int64_t V = 19;
    CAPTURE(T, C, name(stored), instruction_set_name(instruction_set));
    std::vector<std::int32_t> tokens;
    for (std::int64_t t = 0; t < T; ++t) {
        tokens.push_back(static_cast<std::int32_t>(t * t % V));  // some words never, some often
    }
    const auto tokens_T = int_tensor(tokens);
    TestQueue queue(2);

    const auto table = random_tensor(kFp32, {V, C}, 1);
    auto x = nan_tensor(stored, {T, C}, C + 3);
    kernels::embedding_forward(queue, {tokens_T, table, x});
    CHECK(relative_error(x, reference::embedding(tokens, table.values(), C)) <=
          (stored == kFp32 ? 0 : epsilon(stored)));
    CHECK(x.guards_intact());

    const auto d_x = random_tensor(stored, {T, C}, 2, 1, 0, C + 1);
    Values expected = reference::embedding_backward(tokens, d_x.values(), V, C);
    std::vector<TestTensor> gradients;
    for (const int threads : {1, 2, 3}) {
        TestQueue threaded(threads);
        gradients.push_back(mode == GradMode::kOverwrite ? nan_tensor(kFp32, {V, C})
                                                         : random_tensor(kFp32, {V, C}, 3));
        kernels::embedding_backward(threaded, {tokens_T, d_x, gradients.back(), mode});
        CHECK(gradients.back().guards_intact());
    }
    if (mode == GradMode::kAccumulate) {
        const Values before = random_tensor(kFp32, {V, C}, 3).values();
        for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i] += before[i];
        }
    }
    // A word occurs up to T / 9 times: that many additions.
    const double additions = 1 + static_cast<double>(T) / 9;
    CHECK(relative_error(gradients[0], expected) <= std::sqrt(additions) * epsilon(kFp32));
    CHECK((same_bits(gradients[0], gradients[1]) && same_bits(gradients[0], gradients[2])));
}

TEST_CASE("the cross-entropy comparison notices a forgotten target", "[unit]") {
    const auto logits = random_tensor(kFp32, {33, 257}, 1);
    const auto targets = targets_for(33, 257);
    const Values weights(33, 1.0);
    const Values expected =
        reference::cross_entropy(logits.values(), 257, targets, weights).d_logits;
    Values spoilt = expected;
    spoilt[static_cast<std::size_t>(targets[0])] += 1;
    CHECK_FALSE(relative_error(spoilt, expected) <= tolerance(kBf16, 257));
}
