// Large clusters in pieces: how wide these are, and what that is good for.
#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/plan/bound.hpp"
#include "core/plan/search.hpp"
#include "core/plan/search_budget.hpp"
#include "core/plan/split.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

// One giant, which 30 ranks can hold and some 180 have done when a plan should end.
Problem with_a_giant() {
    ClosedFormConstants constants = test::round_constants();
    constants.communication_token_bytes = 0;
    test::Dice dice(2);
    Problem problem = test::problem_of({30'000}, 1024, 8);
    problem.cost = std::make_shared<ClosedForm>(constants);
    for (std::int64_t i = 1; i < 2048; ++i) {
        problem.sequences.push_back({.id = i, .tokens = dice.between(800, 1000)});
    }
    return problem;
}

}  // namespace

TEST_CASE("pieces hold the longest sequence, or have it done in time", "[unit][plan]") {
    const Problem problem = with_a_giant();
    const MicroCosts costs(problem);
    const double bound =
        lower_bounds(problem).best_seconds() - problem.cost->per_iteration_seconds();
    CHECK(split(problem, costs, bound, PieceWidth::kHolding).size() == 16);
    const std::vector<Piece> wide = split(problem, costs, bound, PieceWidth::kQuick);
    CHECK(wide.size() == 2);
    std::size_t num_sequences = 0;
    for (const Piece& piece : wide) {
        CHECK(piece.problem.topology.ranks == 512);
        num_sequences += piece.sequences.size();
    }
    CHECK(num_sequences == problem.sequences.size());
}

// The search alone: far from the bound the planner asks others, who know giants too.
TEST_CASE("the search gives a giant the ranks that it needs, more than a usual piece has",
          "[unit][plan]") {
    Problem problem = with_a_giant();
    problem.sequences.resize(700);
    const double once = problem.cost->per_iteration_seconds();
    const double bound = lower_bounds(problem).best_seconds() - once;
    const Plan plan = search(problem, Effort::kFast, bound);
    REQUIRE_NOTHROW(validate(problem, plan));
    CHECK(plan.makespan_seconds - once < 1.2 * bound);
}

TEST_CASE("wide pieces are arranged in a bounded number of looks, in a hurry", "[unit][plan]") {
    Problem problem = with_a_giant();
    CHECK(budget_of(Effort::kFast, problem, 0.99).most_arrange_looks < 10'000'000);
    problem.topology.ranks = 64;
    CHECK(budget_of(Effort::kFast, problem, 1).most_arrange_looks ==
          std::numeric_limits<std::int64_t>::max());
}
