// The transposition in front of the weight's gradient on processors with AMX.
#include "tests/support/tensors.hpp"
#include <catch2/catch.hpp>

#include "kernels/cpu/linear_transpose.hpp"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("transpose_tile moves every element to its place", "[unit][kernels]") {
    const auto dtype = GENERATE(DType::kFloat32, DType::kBFloat16);
    const auto T = GENERATE(as<std::int64_t>{}, 0, 1, 16, 33, 64);
    const auto M = GENERATE(as<std::int64_t>{}, 1, 7, 31, 32, 67);
    const TestTensor x = random_tensor(dtype, {T, M}, 1, 1, 0, M + 5);
    TestTensor y = nan_tensor(dtype, {M, T}, T + 3);
    kernels::cpu::transpose_tile(x, y);
    const Values from = x.values();
    Values expected(from.size());
    for (std::int64_t t = 0; t < T; ++t) {
        for (std::int64_t m = 0; m < M; ++m) {
            expected[static_cast<std::size_t>(m * T + t)] =
                from[static_cast<std::size_t>(t * M + m)];
        }
    }
    CHECK(y.values() == expected);
    CHECK(y.guards_intact());
}
