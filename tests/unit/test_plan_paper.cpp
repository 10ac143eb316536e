// The search of the paper's planners: groups of a whole iteration, and how few of its trials become
// plans.
#include <algorithm>
#include <limits>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/free_ranks.hpp"
#include "core/plan/gang.hpp"
#include "core/plan/length_classes.hpp"
#include "core/plan/paper.hpp"
#include "core/plan/paper_parts.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

// Groups as place_group() finds them one after the other, until one would share ranks.
std::vector<int> one_by_one(const Topology& topology,
                            int degree,
                            int count,
                            std::vector<double>& busy) {
    std::vector<int> all;
    for (int i = 0; i < count; ++i) {
        const std::vector<int> group = place_group(topology, busy, degree, 0);
        const bool is_free = std::all_of(group.begin(), group.end(), [&](int rank) {
            return busy[static_cast<std::size_t>(rank)] == 0;
        });
        if (!is_free && i > 0) {
            break;
        }
        for (const int rank : group) {
            busy[static_cast<std::size_t>(rank)] += 1;
        }
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}

// Videos and texts of all lengths on a cluster so large that giants alone take hundreds of ranks.
Problem large_problem(bool has_slow_ranks) {
    test::Dice dice(5);
    Problem problem = test::problem_of({}, 4096, 8);
    problem.degrees = power_of_two_degrees(4096);
    for (std::int64_t i = 0; i < 4096; ++i) {
        problem.sequences.push_back({.id = i, .tokens = dice.skewed(i % 50 == 0 ? 100'000 : 3000)});
    }
    for (int rank = 0; has_slow_ranks && rank < 4096; ++rank) {
        problem.topology.speeds.push_back(0.6 + 0.5 * dice.uniform());
    }
    return problem;
}

bool holds_all(const Problem& problem) {
    try {
        require_all_fit(problem);
    } catch (const PlanError&) {
        return false;
    }
    return true;
}

}  // namespace

TEST_CASE("free ranks: the groups that are found one after the other", "[unit][plan]") {
    int shared = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        test::Dice dice(seed);
        Topology topology{.ranks = static_cast<int>(dice.between(1, 60)), .ranks_per_node = 1};
        topology.ranks_per_node = static_cast<int>(dice.between(1, std::min(topology.ranks, 12)));
        if (dice.chance(0.5)) {
            for (int rank = 0; rank < topology.ranks; ++rank) {
                topology.speeds.push_back(dice.uniform() + 0.5);
            }
        }
        INFO("seed " << seed);
        FreeRanks free(topology);
        std::vector<double> busy(static_cast<std::size_t>(topology.ranks), 0.0);
        for (int degree = topology.ranks; degree > 0;
             degree -= static_cast<int>(dice.between(1, 6))) {
            const int count = static_cast<int>(dice.between(1, 1 + topology.ranks / degree));
            REQUIRE(free.take(degree, count) == one_by_one(topology, degree, count, busy));
        }
        shared += *std::max_element(busy.begin(), busy.end()) > 1 ? 1 : 0;
    }
    CHECK(shared > 100);
}

TEST_CASE("the paper's planners: the shortest of all trials, none shorter than it promised",
          "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        Problem problem = test::random_problem(seed + 500, 20, 40);
        problem.degrees = power_of_two_degrees(problem.topology.ranks);
        test::Dice dice(seed);
        for (int rank = 0; seed % 2 == 0 && rank < problem.topology.ranks; ++rank) {
            problem.topology.speeds.push_back(0.5 + dice.uniform());
        }
        if (!holds_all(problem)) {
            continue;  // what needs another degree
        }
        INFO("seed " << seed);
        LengthClasses classes(problem, true, problem.degrees);
        double shortest = std::numeric_limits<double>::infinity();
        for (std::size_t first = 0; first < problem.degrees.size(); ++first) {
            for (std::size_t last = first; last < problem.degrees.size(); ++last) {
                for (double pace = 0.25; pace < 10; pace *= 1.4) {
                    const auto shapes = classes.shapes(first, last, pace);
                    if (!shapes) {
                        continue;
                    }
                    const auto parts = paper_parts(problem, classes, *shapes);
                    const Plan plan = paper_plan_of(problem, classes, parts);
                    REQUIRE_NOTHROW(validate(problem, plan));
                    REQUIRE(least_seconds(problem, classes, parts) +
                                problem.cost->per_iteration_seconds() <=
                            plan.makespan_seconds);
                    shortest = std::min(shortest, plan.makespan_seconds);
                }
            }
        }
        const PaperPlan found = paper_plan(problem, true);
        REQUIRE(found.plan.makespan_seconds <= shortest);  // it tries no pace at all too
        REQUIRE(found.num_predicted <= found.num_trials);
    }
}

TEST_CASE("the paper's planners: on thousands of ranks hardly any trial becomes a plan",
          "[unit][plan]") {
    for (const bool has_slow_ranks : {false, true}) {
        const Problem problem = large_problem(has_slow_ranks);
        for (const bool keeps_activations : {false, true}) {
            const PaperPlan found = paper_plan(problem, keeps_activations);
            INFO(found.num_predicted << " of " << found.num_trials);
            REQUIRE_NOTHROW(validate(problem, found.plan));
            CHECK(found.num_trials > (keeps_activations ? 100 : 10));
            CHECK(found.num_predicted <= 20);
        }
    }
}
