// Ranks that are not equally fast: stragglers and mixed nodes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/plan/bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

Plan plan_by(const std::string& name, const Problem& problem) {
    return make_planner(name, {.seed = 1})->plan(problem);
}

// Many short sequences, so that work can be dealt as finely as speeds ask for.
Problem many_short(int ranks, int ranks_per_node) {
    test::Dice dice(11);
    Problem problem = test::problem_of({}, ranks, ranks_per_node);
    for (std::int64_t i = 0; i < std::int64_t{20} * ranks; ++i) {
        problem.sequences.push_back({.id = i, .tokens = dice.between(20, 300)});
    }
    return problem;
}

std::vector<double> tokens_of_ranks(const Problem& problem, const Plan& plan) {
    std::vector<double> tokens(static_cast<std::size_t>(problem.topology.ranks), 0.0);
    for (const Step& step : plan.steps) {
        const auto share =
            static_cast<double>(load_of(problem, step.sequences).tokens) / step.degree();
        for (const int rank : step.world_ranks) {
            tokens[static_cast<std::size_t>(rank)] += share;
        }
    }
    return tokens;
}

}  // namespace

TEST_CASE("speeds: all 1 is as if none were given", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Problem problem = test::random_problem(seed + 8000, 12, 30);
        for (const std::string& name : planner_names()) {
            problem.topology.speeds.clear();
            const Plan plan = plan_by(name, problem);
            problem.topology.speeds.assign(static_cast<std::size_t>(problem.topology.ranks), 1.0);
            INFO("seed " << seed << ", " << name);
            const Plan same = plan_by(name, problem);
            REQUIRE_NOTHROW(validate(problem, same));
            if (name != "dcp") {  // its search may take other ways among equals
                REQUIRE(same.makespan_seconds == Approx(plan.makespan_seconds).epsilon(1e-9));
            } else {
                REQUIRE(same.makespan_seconds <= plan.makespan_seconds * 1.02);
            }
        }
    }
}

TEST_CASE("speeds: slow ranks get less, and dcp comes near what all speeds together allow",
          "[unit][plan]") {
    // A node of half the speed; one straggler; a rank that is faster than described.
    const std::vector<std::vector<double>> clusters{
        {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}, {1, 1, 1, 1, 1, 1, 1, 0.25}, {1, 1, 2, 1, 1, 1, 1, 1}};
    Problem problem = many_short(8, 4);
    const Plan ignorant = plan_by("dcp", problem);
    for (const std::vector<double>& speeds : clusters) {
        problem.topology.speeds = speeds;
        const Plan plan = plan_by("dcp", problem);
        REQUIRE_NOTHROW(validate(problem, plan));
        // The plan of somebody who does not know takes as long as the slowest rank needs.
        CHECK(plan.makespan_seconds <=
              predicted(problem, ignorant.steps).makespan_seconds * (1 + 1e-12));
        CHECK(plan.makespan_seconds < 1.2 * lower_bounds(problem).best_seconds());
        const std::vector<double> tokens = tokens_of_ranks(problem, plan);
        const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
        const auto at = [&](auto place) {
            return tokens[static_cast<std::size_t>(place - speeds.begin())];
        };
        CHECK(at(slowest) < 0.8 * at(fastest));
    }
}

TEST_CASE("speeds: a faster rank hardly ever makes a plan longer", "[unit][plan]") {
    int longer = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        Problem problem = test::random_problem(seed + 8500, 12, 40);
        test::Dice dice(seed);
        for (int rank = 0; rank < problem.topology.ranks; ++rank) {
            problem.topology.speeds.push_back(0.4 + 0.6 * dice.uniform());
        }
        const double before = plan_by("dcp", problem).makespan_seconds;
        const double bound = lower_bounds(problem).best_seconds();
        const auto rank = static_cast<std::size_t>(dice.between(0, problem.topology.ranks - 1));
        problem.topology.speeds[rank] *= 1.5;
        const double after = plan_by("dcp", problem).makespan_seconds;
        INFO("seed " << seed << ": " << after / before);
        CHECK(after <= before * 1.03);
        CHECK(lower_bounds(problem).best_seconds() <= bound * (1 + 1e-4));
        longer += after > before * 1.001 ? 1 : 0;
    }
    CHECK(longer <= 3);
}

TEST_CASE("speeds: plans keep their promises however far ranks differ", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Problem problem = test::random_problem(seed + 9000, 16, 60);
        test::Dice dice(seed);
        const double most = std::pow(10.0, static_cast<double>(dice.between(1, 3)));
        for (int rank = 0; rank < problem.topology.ranks; ++rank) {
            const double share = dice.uniform();
            problem.topology.speeds.push_back(share < 0.4 ? most : share < 0.7 ? 1 / most : 1);
        }
        for (const std::string& name : planner_names()) {
            INFO("seed " << seed << ", " << name);
            REQUIRE_NOTHROW(validate(problem, plan_by(name, problem)));
        }
    }
    // Gangs that last longer than what is aimed at, for the fastest ranks set that.
    test::Dice dice(1);
    Problem problem = test::problem_of({}, 16, 8);
    for (std::int64_t i = 0; i < 120; ++i) {
        problem.sequences.push_back({.id = i, .tokens = dice.skewed(4000)});
    }
    problem.topology.speeds.assign(16, 1);
    std::fill_n(problem.topology.speeds.begin() + 8, 8, 1000.0);
    REQUIRE_NOTHROW(validate(problem, plan_by("dcp", problem)));
}
