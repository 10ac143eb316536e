// Filling a micro-batch with whole sequences: exact where best fit is not.
#include <algorithm>
#include <numeric>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/plan/construct.hpp"
#include "core/plan/fullest.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

// Of all subsets; `tokens` are few.
std::int64_t nearest_sum(const std::vector<std::int64_t>& tokens, std::int64_t room) {
    std::int64_t nearest = 0;
    for (std::uint32_t subset = 0; subset < 1U << tokens.size(); ++subset) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            sum += (subset >> i & 1U) != 0 ? tokens[i] : 0;
        }
        nearest = sum <= room ? std::max(nearest, sum) : nearest;
    }
    return nearest;
}

}  // namespace

TEST_CASE("the fullest micro-batch is as full as any", "[unit][plan]") {
    test::Dice dice(1);
    for (int trial = 0; trial < 200; ++trial) {
        std::vector<std::int64_t> tokens(1 + static_cast<std::size_t>(dice.uniform() * 9));
        for (std::int64_t& own : tokens) {
            own = 1 + static_cast<std::int64_t>(dice.uniform() * (trial % 2 == 0 ? 40 : 300));
        }
        std::sort(tokens.begin(), tokens.end(), std::greater<>());
        const auto room = static_cast<std::int64_t>(dice.uniform() * 400) - 5;
        const std::int64_t slack = trial % 3 == 0 ? 0 : trial / 10;
        const std::vector<std::size_t> chosen = fullest(tokens, room, slack);
        REQUIRE(std::is_sorted(chosen.begin(), chosen.end()));
        REQUIRE(std::adjacent_find(chosen.begin(), chosen.end()) == chosen.end());
        std::int64_t sum = 0;
        for (const std::size_t i : chosen) {
            sum += tokens.at(i);
        }
        const std::int64_t nearest = nearest_sum(tokens, room);
        CHECK(sum <= std::max<std::int64_t>(room, 0));
        CHECK(sum >= std::min(nearest, room - slack));
    }
    // Of equals the set with the longest; one with longer ones may leave a little.
    CHECK(fullest({6, 5, 4, 3, 2}, 9, 0) == std::vector<std::size_t>{0, 3});
    CHECK(fullest({7, 5, 4, 1}, 9, 0) == std::vector<std::size_t>{1, 2});
    CHECK(fullest({7, 5, 4, 1}, 9, 1) == std::vector<std::size_t>{0, 3});
}

TEST_CASE("a gang is filled up as far as time allows", "[unit][plan]") {
    const Problem problem = test::problem_of({300, 250, 200, 120, 80, 50}, 2, 2);
    const MicroCosts costs(problem);
    const std::int64_t most = costs.most_tokens(0);
    REQUIRE(most >= 1000);  // memory does not limit this one
    const auto filled = [&](double most_seconds, std::vector<std::int32_t>& left) {
        left = {1, 2, 3, 4, 5};
        Gang gang{.degree_index = 0, .sequences = {0}, .load = load_of(problem.sequences[0])};
        fill_up(problem, costs, most_seconds, gang, left);
        CHECK(gang.load.tokens == load_of(problem, gang.sequences).tokens);
        CHECK(gang.seconds == costs.seconds(0, gang.load));
        CHECK(gang.sequences.size() + left.size() == 6);
        return gang;
    };
    std::vector<std::int32_t> left;
    CHECK(filled(1e9, left).sequences.size() == 6);
    CHECK(left.empty());
    const double limit = costs.seconds(0, load_of(problem, {0, 1, 2}));
    CHECK(filled(limit, left).sequences == std::vector<std::int32_t>{0, 1, 2});
    CHECK(left == std::vector<std::int32_t>{3, 4, 5});
    CHECK(filled(0, left).sequences == std::vector<std::int32_t>{0});
}

TEST_CASE("where sequences can fill all memory, full packs do", "[unit][plan]") {
    const std::int64_t most = MicroCosts(test::problem_of({1}, 4, 4)).most_tokens(0);
    test::Dice dice(7);
    std::size_t exact = 0;
    std::size_t best_fit = 0;
    for (int trial = 0; trial < 10; ++trial) {
        // Twenty micro-batches of exactly what one rank holds, each cut in four.
        std::vector<std::int64_t> lengths;
        for (int pack = 0; pack < 20; ++pack) {
            std::int64_t left = most;
            for (const int parts : {4, 3, 2}) {
                const auto part = static_cast<std::int64_t>(static_cast<double>(left) *
                                                            (0.4 + 1.2 * dice.uniform()) / parts);
                lengths.push_back(part);
                left -= part;
            }
            lengths.push_back(left);
        }
        const Problem problem = test::problem_of(lengths, 4, 4);
        const MicroCosts costs(problem);
        const Constructor constructor(problem, costs);
        const auto bins = [&](Filling filling) {
            return constructor.construct(1e9, {.filling = filling, .packs_a_rank = 1})
                .bins()
                .size();
        };
        exact += bins(Filling::kFullest);
        best_fit += bins(Filling::kFull);
    }
    INFO("micro-batches: " << exact << ", by best fit " << best_fit << ", at least 200");
    CHECK(exact <= 204);
    CHECK(exact < best_fit);
}
