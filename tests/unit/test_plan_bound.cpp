// Bounds against exhaustive search on tiny problems, and against every planner on larger ones:
// never above what somebody reached, and not far below.
#include "tests/support/plan_problems.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

TEST_CASE("no plan at all beats the bounds", "[unit][plan]") {
    double area = 0;
    double slots = 0;
    int count = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        Problem problem = test::random_problem(seed, 3, 4);
        if (problem.sequences.empty()) {
            continue;
        }
        const double known = make_planner("packed")->plan(problem).makespan_seconds;
        const double shortest = test::ExhaustiveSearch(problem).shortest(known);
        const LowerBounds bounds = lower_bounds(problem);
        INFO("seed " << seed);
        REQUIRE(bounds.longest_seconds <= shortest * (1 + 1e-9));
        REQUIRE(bounds.area_seconds <= shortest * (1 + 1e-9));
        REQUIRE(bounds.slots_seconds <= shortest * (1 + 1e-9));
        CHECK(bounds.slots_seconds >= bounds.area_seconds);
        area += bounds.area_seconds / shortest;
        slots += bounds.slots_seconds / shortest;
        ++count;
    }
    CHECK(count > 300);
    INFO("of the optimum: area " << area / count << ", slots " << slots / count);
    CHECK(area / count > 0.9);
    CHECK(slots / count > 0.92);
}

TEST_CASE("no planner beats the bounds", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        const Problem problem = test::random_problem(seed, 16, 60);
        const double bound = lower_bounds(problem).best_seconds();
        for (const std::string& name : planner_names()) {
            if (name == "dcp" && seed % 50 != 0) {
                continue;  // it thinks for tens of milliseconds
            }
            INFO("seed " << seed << ", planner " << name);
            const Plan plan = make_planner(name, {.seed = seed})->plan(problem);
            REQUIRE(bound <= plan.makespan_seconds * (1 + 1e-9));
        }
    }
}

TEST_CASE("the bounds where the best plan is known", "[unit][plan]") {
    // Eight sequences of 500 tokens on four ranks: one micro-batch of two each, 0.1 + 1 + 0.5 s,
    // and 0.5 s once. No rank can do with less than one micro-batch, and memory holds just two.
    const Problem problem = test::problem_of({500, 500, 500, 500, 500, 500, 500, 500}, 4, 4);
    CHECK(lower_bounds(problem).best_seconds() == Approx(2.1).epsilon(2e-4));
    // Five micro-batches for four ranks: somebody opens two, or a group shares one.
    const Problem more = test::problem_of({600, 600, 600, 600, 600}, 4, 4);
    const LowerBounds bounds = lower_bounds(more);
    CHECK(bounds.slots_seconds >= bounds.area_seconds);
    // One long sequence: as fast as its best group, four ranks.
    const Problem one = test::problem_of({3000}, 4, 4);
    const double alone = one.cost->cost(load_of(3000), {4, 1}, 0).seconds() + 0.5;
    CHECK(lower_bounds(one).longest_seconds == Approx(alone).epsilon(1e-8));
}

TEST_CASE("a batch without sequences takes what an iteration costs once", "[unit][plan]") {
    CHECK(lower_bounds(test::problem_of({}, 4, 2)).best_seconds() == 0.5);
    CHECK_THROWS_AS(lower_bounds(test::problem_of({5000}, 4, 2)), PlanError);
}

TEST_CASE("faster ranks lower the bound, more memory or ranks never raise it", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const Problem problem = test::random_problem(seed, 8, 20);
        const double bound = lower_bounds(problem).best_seconds();
        Problem better = problem;
        better.memory_budget_bytes *= 2;
        // Both are found to 5e-5 and neither search is exact.
        CHECK(lower_bounds(better).best_seconds() <= bound * 1.001);
        better = problem;
        better.topology.speeds.assign(static_cast<std::size_t>(better.topology.ranks), 2.0);
        CHECK(lower_bounds(better).best_seconds() <= bound * (1 + 1e-4));
    }
}

// Exchanges do not slow down with their ranks.
TEST_CASE("no planner beats the bound where all ranks are slow", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        Problem problem = test::random_problem(seed, 6, 12);
        test::Dice dice(seed);
        const bool are_alike = dice.chance(0.5);
        const double speed = 0.01 + 0.9 * dice.uniform();
        for (int rank = 0; rank < problem.topology.ranks; ++rank) {
            problem.topology.speeds.push_back(are_alike ? speed : speed * (0.5 + dice.uniform()));
        }
        const double bound = lower_bounds(problem).best_seconds();
        INFO("seed " << seed);
        for (const std::string& name : planner_names()) {
            const Plan plan = make_planner(name)->plan(problem);
            CHECK(bound <= plan.makespan_seconds * (1 + 1e-9));
        }
    }
}
