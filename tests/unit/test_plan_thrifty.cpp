// Micro-batches that are not filled although memory would hold more: where a token then costs more.
#include "tests/support/plan_profiles.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/plan/construct.hpp"
#include "core/plan/micro_costs.hpp"
#include "core/plan/planner.hpp"

namespace dcp::plan::test {

namespace {

// Beyond 1,024 tokens a rank, tokens cost half as much again (a cache is full); few cost little.
Problem bent_problem(int ranks, std::size_t sequences, std::uint64_t seed) {
    Profile profile = lawful_profile({.fixed = 2e-4, .squared = 1e-10}, ranks, ranks);
    profile.fixed_seconds = 1e-4;
    profile.budget_bytes = 1e7;
    for (ProfilePoint& point : profile.points) {
        const double rank_tokens = static_cast<double>(point.tokens) / point.strategy.degree();
        const double more = std::max(0.0, rank_tokens - 1024) * 0.5e-5;
        point.forward_seconds += more;
        point.backward_seconds += 2 * more;
    }
    Problem problem = profile_problem(profile, ranks);
    problem.may_recompute = false;
    Dice dice(seed);
    for (std::size_t i = 0; i < sequences; ++i) {
        problem.sequences.push_back(
            {.id = static_cast<std::int64_t>(i), .tokens = dice.between(40, 120)});
    }
    return problem;
}

}  // namespace

TEST_CASE("a micro-batch is thrifty where a token costs least", "[unit][plan]") {
    // One line: the more the cheaper.
    Problem problem = problem_of({1}, 2, 2);
    const MicroCosts linear(problem);
    CHECK(linear.thrifty_tokens(0) == linear.most_tokens(0));
    CHECK(linear.thrifty_tokens(1) == linear.most_tokens(1));
    // Recomputing costs a third more than a fixed part that is small.
    problem.may_recompute = true;
    const MicroCosts deep(problem);
    CHECK(deep.most_tokens(0) > linear.most_tokens(0));
    CHECK(deep.thrifty_tokens(0) < deep.most_tokens(0));
    const MicroCosts bent(bent_problem(2, 1, 0));
    CHECK(bent.thrifty_tokens(0) == 1024);
    CHECK(bent.most_tokens(0) > 4096);
    // Of whatever size: no micro-batch has cheaper tokens.
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const Problem random = random_profile_problem(seed, 4, 3);
        const MicroCosts costs(random);
        for (std::size_t index = 0; index < costs.num_degrees(); ++index) {
            const auto token_seconds = [&](std::int64_t tokens) {
                return costs.seconds(index, {tokens, 0}) / static_cast<double>(tokens);
            };
            const std::int64_t thrifty = costs.thrifty_tokens(index);
            for (std::int64_t tokens = 1; tokens <= costs.most_tokens(index);
                 tokens += 1 + tokens / 16) {
                CHECK(token_seconds(thrifty) <= token_seconds(tokens) * (1 + 1e-12));
            }
        }
    }
}

TEST_CASE("thrifty constructions hold no more than that, but for single sequences",
          "[unit][plan]") {
    Problem problem = bent_problem(4, 300, 1);
    problem.sequences.push_back({.id = 1000, .tokens = 3000});
    const MicroCosts costs(problem);
    const Constructor constructor(problem, costs);
    for (const int packs : {0, 1, 3}) {
        const Draft draft = constructor.construct(
            1, {.fill_gangs = false, .filling = Filling::kThrifty, .packs_a_rank = packs});
        for (const Bin& bin : draft.bins()) {
            CHECK((bin.sequences.size() == 1 ||
                   bin.load.tokens <= costs.thrifty_tokens(bin.degree_index)));
        }
    }
}

TEST_CASE("search does not fill memory where that costs", "[unit][plan]") {
    double over_bound = 0;  // 1.02 to 1.03 where micro-batches are filled, and then improved
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const Problem problem = bent_problem(4, 400, seed);
        const Plan plan = make_planner("dcp", {.effort = Effort::kFast})->plan(problem);
        over_bound += plan.makespan_seconds / plan.lower_bound_seconds / 5;
    }
    CHECK(over_bound < 1.013);
}

}  // namespace dcp::plan::test
