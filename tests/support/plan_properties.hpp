// What must hold of every planner and every problem. The unit tests try some hundreds, the long
// ones thousands.
#pragma once

#include <string>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "core/plan/bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

namespace dcp::plan::test {

struct Trials {
    std::uint64_t first_seed = 0;
    int problems = 0;
    int most_ranks = 0;
    int most_sequences = 0;
    Effort effort = Effort::kFast;
};

// As random_problem(), with ranks of different speed in every fifth.
inline Problem uneven_problem(std::uint64_t seed, const Trials& trials) {
    Problem problem = random_problem(seed, trials.most_ranks, trials.most_sequences);
    if (seed % 5 == 0) {
        Dice dice(seed + 1);
        for (int rank = 0; rank < problem.topology.ranks; ++rank) {
            problem.topology.speeds.push_back(dice.chance(0.7) ? 1 : 0.3 + dice.uniform());
        }
    }
    return problem;
}

// Valid, the same again, and not below the bound: every planner, and in every eighth problem every
// step mode, for rounds take `dcp` longest.
inline void every_planner_keeps_its_promises(const Trials& trials) {
    for (int i = 0; i < trials.problems; ++i) {
        const std::uint64_t seed = trials.first_seed + static_cast<std::uint64_t>(i);
        Problem problem = uneven_problem(seed, trials);
        for (const StepMode mode :
             {StepMode::kIndependent, StepMode::kRounds, StepMode::kRoundsOneDepth}) {
            if (mode != StepMode::kIndependent && i % 8 != 0) {
                continue;
            }
            problem.step_mode = mode;
            const double bound = lower_bounds(problem).best_seconds();
            for (const std::string& name : planner_names()) {
                INFO("seed " << seed << ", " << name << ", " << to_string(mode));
                const PlannerOptions options{.seed = seed, .effort = trials.effort};
                const Plan plan = make_planner(name, options)->plan(problem);
                REQUIRE_NOTHROW(validate(problem, plan));
                REQUIRE(plan.makespan_seconds >= bound * (1 - 1e-9));
                REQUIRE(make_planner(name, options)->plan(problem) == plan);
            }
        }
    }
}

struct Worsened {
    int count = 0;
    int of = 0;
    double most = 1;     // the largest ratio
    std::string beyond;  // a line for each that is worse by more than 1 %
};

// How `dcp` fares with more memory, and with one more node.
inline Worsened more_makes_longer(const Trials& trials) {
    Worsened worsened;
    const auto seconds = [&](const Problem& problem) {
        return make_planner("dcp", {.effort = trials.effort})->plan(problem).makespan_seconds;
    };
    for (int i = 0; i < trials.problems; ++i) {
        const std::uint64_t seed = trials.first_seed + static_cast<std::uint64_t>(i);
        Problem problem = random_problem(seed, trials.most_ranks, trials.most_sequences);
        problem.degrees = any_degrees(problem.topology.ranks);
        const double before = seconds(problem);
        Problem more = problem;
        more.memory_budget_bytes *= 1.3;
        Problem wider = problem;
        wider.topology.ranks += problem.topology.ranks_per_node;
        wider.degrees = any_degrees(wider.topology.ranks);
        for (const Problem* better : {&more, &wider}) {
            const double ratio = seconds(*better) / before;
            ++worsened.of;
            worsened.count += ratio > 1 + 1e-9 ? 1 : 0;
            worsened.most = std::max(worsened.most, ratio);
            if (ratio > 1.01) {
                worsened.beyond += fmt::format("seed {}, more {}: {:.4f}\n", seed,
                                               better == &more ? "memory" : "ranks", ratio);
            }
        }
    }
    return worsened;
}

}  // namespace dcp::plan::test
