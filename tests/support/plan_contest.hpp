// dcp against every other planner on random problems.
//
// In background effort dcp is strictly never longer than any planner that is deterministic.
// FlexSP's integer program is solved to a time limit, and sometimes finds a plan that is a little
// shorter.
#pragma once

#include <string>

#include "tests/bench/rivals/rivals.hpp"
#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

namespace dcp::plan::test {

struct Contest {
    std::uint64_t first_seed = 0;
    int problems = 0;
    int most_ranks = 0;
    int most_sequences = 0;
    Effort effort = Effort::kFast;
    double slack = 0;  // part by which dcp may be longer: in a hurry it compares with nobody when
                       // its plan is near the bound
};

constexpr double kFlexSpSlack = 0.01;

inline void contest(const Contest& contest) {
    const bench::FlexSpPlanner flexsp({.limit_seconds = 0.05, .chunk_counts = 1});
    const bench::FcpPlanner fcp;
    const bench::MegatronPlanner megatron;
    std::string lost;  // a line each
    for (int i = 0; i < contest.problems; ++i) {
        const std::uint64_t seed = contest.first_seed + static_cast<std::uint64_t>(i);
        const Problem problem = random_problem(seed, contest.most_ranks, contest.most_sequences);
        const Plan plan = make_planner("dcp", {.effort = contest.effort})->plan(problem);
        REQUIRE_NOTHROW(validate(problem, plan));
        const auto compare = [&](const Planner& other, double slack) {
            const double seconds = other.plan(problem).makespan_seconds;
            if (plan.makespan_seconds > seconds * (1 + slack + 1e-12)) {
                lost += fmt::format("seed {}: {} {:.6f} s, dcp {:.6f} s\n", seed, other.name(),
                                    seconds, plan.makespan_seconds);
            }
        };
        for (const std::string& name : planner_names()) {
            if (name != "dcp") {
                compare(*make_planner(name, {.seed = seed}), contest.slack);
            }
        }
        compare(fcp, contest.slack);
        compare(megatron, contest.slack);
        if (i % 8 == 0) {  // it thinks longer than all others
            compare(flexsp, contest.slack + kFlexSpSlack);
        }
    }
    INFO(lost);
    REQUIRE(lost.empty());
}

}  // namespace dcp::plan::test
