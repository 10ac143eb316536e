// AdamW with the rounding of the new parameters in the same pass; AdamW itself is tested with the
// CPU backend's cases.
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::test {
namespace {

constexpr DType kFp32 = DType::kFloat32;

struct State {
    explicit State(std::int64_t count)
        : p(random_tensor(kFp32, {count}, 2)),
          m(random_tensor(kFp32, {count}, 3)),
          v(random_tensor(kFp32, {count}, 4, 0, 0.5)) {}
    kernels::AdamW step(const TestTensor& gradients) {
        return {.parameters = p,
                .gradients = gradients,
                .first_moments = m,
                .second_moments = v,
                .learning_rate = 0.1,
                .decay = 0.1,
                .step = 3};
    }
    TestTensor p;
    TestTensor m;
    TestTensor v;
};

TEST_CASE("cuda adamw: with the cast it is the same update, and its rounding", "[emulated]") {
    TestQueue queue(1);
    for (const std::int64_t count : {0, 1, 7, 8, 13, 257, 2055}) {
        CAPTURE(count);
        const auto gradients = random_tensor(kFp32, {count}, 1);
        State state(count);
        State alone(count);
        auto cast = nan_tensor(DType::kBFloat16, {count});
        kernels::cuda::adamw_and_cast(queue, state.step(gradients), cast);
        kernels::adamw(queue, alone.step(gradients));
        CHECK(same_bits(state.p, alone.p));
        CHECK(same_bits(state.m, alone.m));
        CHECK(same_bits(state.v, alone.v));
        CHECK(same_bits(cast, value_tensor(DType::kBFloat16, {count}, state.p.values())));
        CHECK((cast.guards_intact() && state.p.guards_intact()));
    }
}

TEST_CASE("cuda adamw: a cast that does not fit is refused", "[emulated]") {
    TestQueue queue(1);
    const auto gradients = random_tensor(kFp32, {8}, 1);
    State state(8);
    auto shorter = nan_tensor(DType::kBFloat16, {7});
    CHECK_THROWS_AS(kernels::cuda::adamw_and_cast(queue, state.step(gradients), shorter),
                    ShapeError);
    CHECK_THROWS_AS(kernels::cuda::adamw_and_cast(queue, state.step(gradients), state.p),
                    ShapeError);
}

}  // namespace
}  // namespace dcp::test
