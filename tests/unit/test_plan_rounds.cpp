// Plans in rounds: the search, its bound, and both against every plan there is where that can be
// tried.
#include <algorithm>

#include "tests/support/plan_problems.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/plan/bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/planners.hpp"
#include "core/plan/round_search.hpp"
#include "core/plan/rounds.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

Plan plan_by(const char* name, const Problem& problem, Effort effort = Effort::kBackground) {
    return make_planner(name, {.effort = effort})->plan(problem);
}

// Lengths as text has them on nodes of four ranks.
Problem text_like(std::uint64_t seed, int ranks, int sequences, StepMode mode) {
    test::Dice dice(seed);
    Problem problem = test::problem_of({}, ranks, 4);
    for (int i = 0; i < sequences; ++i) {
        problem.sequences.push_back({.id = i, .tokens = dice.skewed(i % 20 == 0 ? 4000 : 900)});
    }
    problem.may_recompute = true;
    problem.step_mode = mode;
    return problem;
}

}  // namespace

TEST_CASE("rounds: near the shortest there is, and no bound is above that", "[unit][plan]") {
    double sum = 0;
    double worst = 0;
    double bound = 0;
    double slots = 0;
    int count = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        Problem problem = test::random_problem(seed + 300, 3, 4);
        if (problem.sequences.empty()) {
            continue;
        }
        problem.step_mode = StepMode::kRounds;
        INFO("seed " << seed);
        const Plan plan = plan_by("dcp", problem);
        REQUIRE_NOTHROW(validate(problem, plan));
        const double shortest = test::ExhaustiveSearch(problem).shortest(plan.makespan_seconds);
        const LowerBounds bounds = lower_bounds(problem);
        REQUIRE(bounds.best_seconds() <= shortest * (1 + 1e-9));
        REQUIRE(bounds.best_seconds() >= bounds.slots_seconds);
        CHECK(plan.lower_bound_seconds == bounds.best_seconds());
        bound += bounds.best_seconds() / shortest;
        slots += bounds.slots_seconds / shortest;
        sum += plan.makespan_seconds / shortest;
        worst = std::max(worst, plan.makespan_seconds / shortest);
        ++count;
    }
    INFO("over the shortest: mean " << sum / count << ", worst " << worst << "; bound "
                                    << bound / count << ", slots " << slots / count);
    CHECK(count > 100);
    CHECK(sum / count < 1.005);
    CHECK(worst < 1.1);
    CHECK(bound / count > 0.9);
    CHECK(bound > slots);
}

TEST_CASE("rounds: the bound knows that all ranks take equally many steps", "[unit][plan]") {
    // Five sequences that fill a micro-batch, on four ranks: independent steps need two on one rank
    // only, in rounds everyone waits for two.
    Problem problem = test::problem_of({1000, 1000, 1000, 1000, 1000}, 4, 4);
    problem.degrees = {1};
    const double free = lower_bounds(problem).best_seconds();
    problem.step_mode = StepMode::kRounds;
    CHECK(lower_bounds(problem).rounds_seconds >= free);
    CHECK(plan_by("dcp", problem).makespan_seconds == Approx(0.5 + 2 * 2.1));
}

TEST_CASE("rounds: dcp is never longer than what it starts from, nor than others", "[unit][plan]") {
    for (const StepMode mode : {StepMode::kRounds, StepMode::kRoundsOneDepth}) {
        for (std::uint64_t seed = 0; seed < 30; ++seed) {
            Problem problem = test::random_problem(seed + 6000, 16, 40);
            problem.step_mode = mode;
            if (seed % 3 == 0) {
                test::Dice dice(seed);
                for (int rank = 0; rank < problem.topology.ranks; ++rank) {
                    problem.topology.speeds.push_back(dice.chance(0.6) ? 1 : 0.5);
                }
            }
            INFO("seed " << seed << ", " << to_string(mode));
            const Plan plan = plan_by("dcp", problem, Effort::kFast);
            REQUIRE_NOTHROW(validate(problem, plan));
            for (const char* other : {"dcp-inter", "dcp-intra", "bucket", "packed"}) {
                CHECK(plan.makespan_seconds <=
                      plan_by(other, problem).makespan_seconds * (1 + 1e-12));
            }
        }
    }
}

TEST_CASE("rounds: the search shortens what the constructions leave, with every sequence once",
          "[unit][plan]") {
    double before = 0;
    double after = 0;
    for (const StepMode mode : {StepMode::kRounds, StepMode::kRoundsOneDepth}) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            const Problem problem = text_like(seed, 12, 120, mode);
            Problem free = problem;
            free.step_mode = StepMode::kIndependent;
            const Plan dealt = in_rounds(problem, PackedPlanner().plan(free).steps);
            const RoundCosts costs(problem);
            std::vector<std::vector<Step>> rounds(1);
            int ranks = 0;
            for (const Step& step : dealt.steps) {
                if (ranks == problem.topology.ranks) {
                    rounds.emplace_back();
                    ranks = 0;
                }
                ranks += step.degree();
                if (!step.is_filler()) {
                    rounds.back().push_back(step);
                }
            }
            const auto start = round_states(problem, costs, rounds);
            const auto found = improve_rounds(problem, start, 20'000, seed);
            REQUIRE(total_seconds(found) <= total_seconds(start));
            REQUIRE(improve_rounds(problem, start, 0, seed).size() == start.size());
            before += total_seconds(start);
            after += total_seconds(found);

            const auto steps = round_steps(problem, costs, found);
            const Plan plan = plan_of_rounds(problem, steps);
            REQUIRE_NOTHROW(validate(problem, plan));
            // What the search counts is what the plan takes: fillers are shorter than any round.
            CHECK(
                plan.makespan_seconds ==
                Approx(total_seconds(found) + problem.cost->per_iteration_seconds()).epsilon(1e-9));
        }
    }
    INFO("the search leaves " << after / before);
    CHECK(after < 0.9 * before);
}

TEST_CASE("rounds: near the bound where there is room for it", "[unit][plan]") {
    for (const StepMode mode : {StepMode::kRounds, StepMode::kRoundsOneDepth}) {
        const Problem problem = text_like(3, 8, 80, mode);
        const Plan plan = plan_by("dcp", problem);
        INFO(to_string(mode) << ": " << plan.makespan_seconds / plan.lower_bound_seconds);
        CHECK(plan.makespan_seconds / plan.lower_bound_seconds < 1.06);
    }
}

TEST_CASE("rounds: free ranks make groups that obey the node rule", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        test::Dice dice(seed);
        const int ranks = static_cast<int>(dice.between(1, 20));
        Problem problem = test::problem_of({100}, ranks, static_cast<int>(dice.between(1, ranks)));
        if (dice.chance(0.3)) {
            for (int rank = 0; rank < ranks; ++rank) {
                problem.topology.speeds.push_back(dice.chance(0.5) ? 1 : 0.5);
            }
        }
        const RoundCosts costs(problem);
        RoundState state(problem, costs);
        while (state.free_ranks() > 0) {
            const int degree = static_cast<int>(dice.between(1, state.free_ranks()));
            const auto group = state.room_for(degree);
            if (!group) {
                REQUIRE(degree > 1);  // a rank alone always has room
                continue;
            }
            REQUIRE(static_cast<int>(group->size()) == degree);
            REQUIRE(std::is_sorted(group->begin(), group->end()));
            REQUIRE(problem.topology.obeys_node_rule(*group));
            for (const int rank : *group) {
                REQUIRE(state.is_free(rank));
            }
            state.open({.degree_index = static_cast<std::size_t>(degree - 1),
                        .world_ranks = *group,
                        .sequences = {0},
                        .load = load_of(100)});
        }
        CHECK_FALSE(state.room_for(1));
        const RoundGroup closed = state.close(0);
        CHECK(state.free_ranks() == static_cast<int>(closed.world_ranks.size()));
    }
}
