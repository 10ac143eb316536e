// Layout of a step: every token exactly once, in order, and balanced; the kernels around exchanges.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/compare.hpp"
#include "tests/support/instruction_sets.hpp"
#include "tests/support/tensors.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"
#include "core/model/sharding.hpp"
#include "kernels/attention_merge.hpp"
#include "kernels/sum_rows.hpp"

using namespace dcp;
using namespace dcp::model;
using namespace dcp::test;
using Lengths = std::vector<std::int64_t>;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

std::vector<Piece> pieces_of(const StepLayout& layout, int rank) {
    const auto pieces = layout.pieces(rank);
    return {pieces.begin(), pieces.end()};
}

void check_layout(const Lengths& lengths, int u, int r) {
    CAPTURE(lengths, u, r);
    const StepLayout layout(lengths, u, r);
    const std::int64_t all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    std::vector<std::vector<int>> seen;
    for (const std::int64_t length : lengths) {
        seen.emplace_back(static_cast<std::size_t>(length), 0);
    }
    for (int part = 0; part < r; ++part) {
        // Rows of the part, as (sequence, position), from its shards and from part_rows.
        std::vector<std::pair<std::int32_t, std::int64_t>> from_shards;
        std::vector<std::pair<std::int32_t, std::int64_t>> from_part;
        for (int index = 0; index < u; ++index) {
            const int rank = part * u + index;
            std::int64_t held = 0;
            for (const Piece& piece : layout.pieces(rank)) {
                REQUIRE(piece.count > 0);
                held += piece.count;
                for (std::int64_t i = 0; i < piece.count; ++i) {
                    from_shards.emplace_back(piece.sequence, piece.position + i);
                    ++seen.at(static_cast<std::size_t>(piece.sequence))
                          .at(static_cast<std::size_t>(piece.position + i));
                }
            }
            REQUIRE(held == layout.num_tokens(rank));
            REQUIRE(std::abs(held * u - layout.part_tokens(part)) < u);
        }
        std::int32_t sequence = 0;
        for (const PartRows& rows : layout.part_rows(part)) {
            REQUIRE(rows.row == static_cast<std::int64_t>(from_part.size()));
            for (std::int64_t i = 0; i < rows.front_count; ++i) {
                from_part.emplace_back(sequence, rows.front_position + i);
            }
            for (std::int64_t i = 0; i < rows.back_count; ++i) {
                from_part.emplace_back(sequence, rows.back_position + i);
            }
            ++sequence;
        }
        REQUIRE(from_part == from_shards);
        REQUIRE(layout.part_tokens(part) == static_cast<std::int64_t>(from_part.size()));
        REQUIRE(layout.part_tokens(part) <= layout.largest_part_tokens());
        REQUIRE(std::abs(layout.part_tokens(part) * r - all) < r);
    }
    for (const auto& sequence : seen) {
        REQUIRE(std::ranges::all_of(sequence, [](int count) { return count == 1; }));
    }
}

// Keys seen by the tokens of a part with causal attention.
std::int64_t causal_work(const StepLayout& layout, int part) {
    std::int64_t pairs = 0;
    for (int index = 0; index < layout.ulysses(); ++index) {
        for (const Piece& piece : layout.pieces(part * layout.ulysses() + index)) {
            pairs += piece.count * piece.position + piece.count * (piece.count + 1) / 2;
        }
    }
    return pairs;
}

}  // namespace

TEST_CASE("The example of the layout's description", "[unit]") {
    const StepLayout layout(Lengths{8, 5}, 2, 2);
    CHECK(pieces_of(layout, 0) == std::vector<Piece>{{0, 0, 2}, {0, 6, 1}});
    CHECK(pieces_of(layout, 1) == std::vector<Piece>{{0, 7, 1}, {1, 0, 2}, {1, 4, 1}});
    CHECK(pieces_of(layout, 2) == std::vector<Piece>{{0, 2, 3}});
    CHECK(pieces_of(layout, 3) == std::vector<Piece>{{0, 5, 1}, {1, 2, 2}});
}

TEST_CASE("Every token is on one rank, in order, and ranks are balanced", "[unit]") {
    const std::vector<Lengths> packs = {
        {},        {0},   {1},    {7},     {2, 1}, {3, 5},   {1, 1, 1, 1, 1, 1, 1},
        {1, 1000}, {698}, {2999}, {4, 12}, {8423}, {5, 0, 6}};
    const CounterRng rng(1, "packs", 0);
    for (int u = 1; u <= 6; ++u) {
        for (int r = 1; r <= 6; ++r) {
            for (const Lengths& lengths : packs) {
                check_layout(lengths, u, r);
            }
            Lengths lengths;
            for (std::uint64_t i = 0; i < 12; ++i) {
                const auto at = static_cast<std::uint64_t>(u * 100 + r * 10) + i;
                lengths.push_back(1 + static_cast<std::int64_t>(rng.word(at) % 97));
            }
            check_layout(lengths, u, r);
        }
    }
}

TEST_CASE("Ring parts share causal work evenly", "[unit]") {
    for (const Lengths& lengths : {Lengths{2999}, Lengths{698, 33, 2048}, Lengths{1, 1000, 64}}) {
        const std::int64_t all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
        for (int r = 2; r <= 8; ++r) {
            const StepLayout layout(lengths, 2, r);
            Lengths work;
            for (int part = 0; part < r; ++part) {
                work.push_back(causal_work(layout, part));
            }
            const auto [least, most] = std::ranges::minmax(work);
            CAPTURE(lengths, r, work);
            // Front and back positions of two parts sum to the same within a token each; a part has
            // length / r of them, and up to two more tokens at any position.
            CHECK(most - least <= 3 * all);
        }
    }
}

TEST_CASE("A layout refuses what cannot be", "[unit]") {
    CHECK_THROWS_AS(StepLayout(Lengths{1}, 0, 1), ShapeError);
    CHECK_THROWS_AS(StepLayout(Lengths{1}, 1, 0), ShapeError);
    CHECK_THROWS_AS(StepLayout(Lengths{3, -1}, 1, 1), ShapeError);
}

TEST_CASE("Sums of rows", "[unit]") {
    for (const DType from : {DType::kFloat32, DType::kBFloat16}) {
        for (const DType to : {DType::kFloat32, DType::kBFloat16}) {
            for (const std::int64_t columns : {1, 5, 31, 33, 257, 1025}) {
                for (const std::size_t terms : {0, 1, 2, 3, 6}) {
                    Queue queue = Queue::cpu(columns % 2 == 0 ? 1 : 3);
                    const std::int64_t T = columns == 31 ? 257 : 7;
                    std::vector<TestTensor> sources;
                    std::vector<ConstTensor> views;
                    Values expected(static_cast<std::size_t>(T * columns));
                    for (std::size_t i = 0; i < terms; ++i) {
                        sources.push_back(
                            random_tensor(from, {T, columns}, 10 + i, 1, 0, columns + 3));
                        std::ranges::transform(expected, sources.back().values(), expected.begin(),
                                               std::plus<>());
                    }
                    for (const TestTensor& source : sources) {
                        views.push_back(source);
                    }
                    TestTensor sum(to, {T, columns}, columns + 5);
                    kernels::sum_rows(queue, {.from = views, .to = sum});
                    CAPTURE(name(from), name(to), columns, terms);
                    CHECK(sum.guards_intact());
                    // One rounding of each sum in fp32, and one to the result.
                    const double adds = terms < 2 ? 0 : static_cast<double>(terms - 1);
                    const double bound = adds * 3 * epsilon(DType::kFloat32) +
                                         (from == to && terms < 2 ? 0 : epsilon(to) / 2);
                    CHECK(relative_error(sum, expected) <= bound);
                }
            }
        }
    }
}

TEST_CASE("Attention over two sets of keys is merged", "[unit]") {
    constexpr std::int64_t T = 40;
    constexpr std::int64_t H = 3;
    const std::array spans = {kernels::AttentionSpan{.q_begin = 2, .q_count = 5},
                              kernels::AttentionSpan{.q_begin = 7, .q_count = 1},
                              kernels::AttentionSpan{.q_begin = 20, .q_count = 18}};
    const auto is_merged = [](std::int64_t t) { return (t >= 2 && t < 8) || (t >= 20 && t < 38); };
    for (const std::int64_t set : instruction_sets()) {
        const UseInstructionSet use(set);
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
            for (const std::int64_t D : {1, 7, 33, 64}) {
                CAPTURE(instruction_set_name(set), name(dtype), D);
                Queue queue = Queue::cpu(2);
                TestTensor o = random_tensor(dtype, {T, H, D}, 1);
                TestTensor lse = random_tensor(DType::kFloat32, {H, T}, 2, 30);
                TestTensor o_sum = random_tensor(DType::kFloat32, {T, H, D}, 3);
                TestTensor lse_sum = random_tensor(DType::kFloat32, {H, T}, 4, 30);
                lse.set(3, kMinusInfinity);  // adds nothing
                lse_sum.set(4, kMinusInfinity);
                lse.set(5, kMinusInfinity);  // neither saw a key
                lse_sum.set(5, kMinusInfinity);
                Values o_expected = o_sum.values();
                Values lse_expected = lse_sum.values();
                const Values o_added = o.values();
                const Values lse_added = lse.values();
                for (std::int64_t t = 0; t < T; ++t) {
                    for (std::int64_t h = 0; h < H && is_merged(t); ++h) {
                        double& sum = lse_expected[static_cast<std::size_t>(h * T + t)];
                        const double added = lse_added[static_cast<std::size_t>(h * T + t)];
                        if (added == kMinusInfinity) {
                            continue;
                        }
                        const double merged =
                            std::max(sum, added) + std::log1p(std::exp(-std::abs(sum - added)));
                        for (std::int64_t d = 0; d < D; ++d) {
                            const auto at = static_cast<std::size_t>((t * H + h) * D + d);
                            o_expected[at] = std::exp(sum - merged) * o_expected[at] +
                                             std::exp(added - merged) * o_added[at];
                        }
                        sum = merged;
                    }
                }
                kernels::attention_merge(queue, {.o_THD = o,
                                                 .lse_HT = lse,
                                                 .o_sum_THD = o_sum,
                                                 .lse_sum_HT = lse_sum,
                                                 .spans = spans});
                // Differences of logarithms up to 100 are exact to 100 epsilon, and so are weights.
                CHECK(max_error(o_sum, o_expected) <= 200 * epsilon(DType::kFloat32));
                CHECK(max_error(lse_sum, lse_expected) <= 4 * epsilon(DType::kFloat32));
                CHECK(o_sum.guards_intact());
                CHECK(lse_sum.guards_intact());
            }
        }
    }
}

TEST_CASE("Merging refuses tensors that do not fit", "[unit]") {
    Queue queue = Queue::cpu(1);
    TestTensor o = random_tensor(DType::kFloat32, {4, 2, 3}, 1);
    TestTensor lse = random_tensor(DType::kFloat32, {2, 4}, 2);
    TestTensor wrong = random_tensor(DType::kFloat32, {4, 2}, 3);
    const std::array beyond = {kernels::AttentionSpan{.q_begin = 3, .q_count = 2}};
    const kernels::AttentionMerge good{
        .o_THD = o, .lse_HT = lse, .o_sum_THD = o, .lse_sum_HT = lse, .spans = beyond};
    CHECK_THROWS_AS(kernels::attention_merge(queue, good), ShapeError);
    kernels::AttentionMerge bad = good;
    bad.lse_HT = wrong;
    CHECK_THROWS_AS(kernels::attention_merge(queue, bad), ShapeError);
    CHECK_THROWS_AS(kernels::copy_rows(queue, o.tensor().reshaped({4, 6}), wrong), ShapeError);
}
