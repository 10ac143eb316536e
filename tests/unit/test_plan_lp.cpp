// The LP bound: never above what somebody reached, never below the cheap bounds, and tight where
// they are known not to be.
#include "tests/support/plan_hardware.hpp"
#include "tests/support/plan_problems.hpp"
#include "tests/support/plan_profiles.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/lp/lp_bound.hpp"
#include "core/plan/lp/price_program.hpp"
#include "core/plan/planner.hpp"

using namespace dcp;
using namespace dcp::plan;

TEST_CASE("no plan at all beats the LP bound", "[unit][plan]") {
    double cheap = 0;
    double strong = 0;
    int count = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        const Problem problem = test::random_problem(seed, 3, 4);
        if (problem.sequences.empty()) {
            continue;
        }
        const double known = make_planner("packed")->plan(problem).makespan_seconds;
        const double shortest = test::ExhaustiveSearch(problem).shortest(known);
        const double bound = lp::lower_bound_seconds(problem);
        const double slots = lower_bounds(problem).best_seconds();
        INFO("seed " << seed);
        REQUIRE(bound <= shortest * (1 + 1e-9));
        REQUIRE(bound >= slots);
        // A known makespan only ends the search early.
        REQUIRE(lp::lower_bound_seconds(problem, shortest) <= shortest * (1 + 1e-9));
        cheap += slots / shortest;
        strong += bound / shortest;
        ++count;
    }
    INFO("of the optimum: cheap " << cheap / count << ", LP " << strong / count);
    CHECK(count > 300);
    CHECK(1 - strong / count < 0.6 * (1 - cheap / count));
    CHECK(strong / count > 0.997);
}

TEST_CASE("the LP bound holds for hardware and measured models", "[unit][plan]") {
    double gaps = 0;
    int count = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        for (const Problem& problem : {test::random_hardware_problem(seed, 3, 4),
                                       test::random_profile_problem(seed, 3, 4)}) {
            const double known = make_planner("packed")->plan(problem).makespan_seconds;
            const double shortest = test::ExhaustiveSearch(problem).shortest(known);
            const double bound = lp::lower_bound_seconds(problem);
            INFO("seed " << seed << ", " << problem.cost->name());
            REQUIRE(bound <= shortest * (1 + 1e-9));
            REQUIRE(bound >= lower_bounds(problem).best_seconds());
            gaps += shortest / bound - 1;
            ++count;
        }
    }
    INFO("mean gap " << gaps / count);
    CHECK(gaps / count < 0.1);
}

TEST_CASE("no planner beats the LP bound", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Problem problem = test::random_problem(5000 + seed, 8, 24);
        const double bound = lp::lower_bound_seconds(problem);
        for (const std::string& name : planner_names()) {
            if (name == "dcp" && seed % 10 != 0) {
                continue;  // it thinks for tens of milliseconds
            }
            INFO("seed " << seed << ", planner " << name);
            REQUIRE(bound <= make_planner(name, {.seed = seed})->plan(problem).makespan_seconds *
                                 (1 + 1e-9));
        }
    }
}

TEST_CASE("faster ranks, and a batch without sequences", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        Problem problem = test::random_problem(seed, 3, 3);
        if (problem.sequences.empty()) {
            CHECK(lp::lower_bound_seconds(problem) == problem.cost->per_iteration_seconds());
            continue;
        }
        problem.topology.speeds.assign(static_cast<std::size_t>(problem.topology.ranks), 0.5);
        problem.topology.speeds.front() = 2;
        const double shortest = test::ExhaustiveSearch(problem).shortest(1e9);
        INFO("seed " << seed);
        REQUIRE(lp::lower_bound_seconds(problem) <= shortest * (1 + 1e-9));
    }
    CHECK_THROWS_AS(lp::lower_bound_seconds(test::problem_of({5000}, 4, 2)), PlanError);
}

TEST_CASE("two sequences above half of a micro-batch do not share it", "[unit][plan]") {
    // Five of 600 tokens on four ranks that hold 1000 each, degree 1 only: a micro-batch with one
    // takes 0.1 + 0.96 s, and none holds two. So some rank runs two. The cheap bounds believe in
    // 1.25 sequences in one micro-batch, 0.1 + 1.25 x 0.96 s; the LP knows that ranks with one of
    // this size run one micro-batch or, for as long as the two together last, another.
    Problem problem = test::problem_of({600, 600, 600, 600, 600}, 4, 4);
    problem.degrees = {1};
    CHECK(lower_bounds(problem).best_seconds() == Approx(0.5 + 1.3).epsilon(2e-4));
    CHECK(lp::lower_bound_seconds(problem) == Approx(0.5 + 2 * 1.06).epsilon(2e-4));
}

TEST_CASE("multipliers that are wrong only weaken the certificate", "[unit][plan]") {
    // The greatest size is there twice; then comes one that is there once.
    const Problem problem = test::problem_of({900, 900, 700, 400, 300, 300}, 3, 3);
    const double known = make_planner("dcp")->plan(problem).makespan_seconds;
    const double shortest = test::ExhaustiveSearch(problem).shortest(known * 1.001) - 0.5;
    const double makespan = shortest * (1 + 1e-9);
    const double fixed = lp::least_fixed_seconds(problem);
    const std::vector<lp::Layout> layouts = lp::layouts_of(problem, 10 * shortest);
    const Lengths lengths = distinct_lengths(problem);
    test::Dice dice(7);
    for (std::size_t round = 0; round < 240; ++round) {
        const std::vector<lp::Pattern> patterns =
            lp::rank_patterns({.fixed_seconds = fixed, .makespan = makespan, .mean_count = 2},
                              layouts, lengths, round % 4);
        const lp::Kinds kinds(layouts, fixed, patterns, makespan);
        lp::Multipliers multipliers;
        for (std::size_t place = 0; place < lp::kRoles * patterns.size(); ++place) {
            multipliers.open.push_back(dice.uniform());
            multipliers.work.push_back(2 * dice.uniform());
        }
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
            if (dice.chance(0.5)) {
                lp::RightShares& right = multipliers.rights[kind];
                for (double& part : right.by_part) {
                    part = dice.chance(0.4) ? dice.uniform() : 0;
                }
                right.own[{900, 810'000}] = dice.uniform();
                right.own[{700, 490'000}] = dice.uniform();
            }
        }
        const lp::Certificate certificate =
            lp::certify(kinds, patterns, fixed, makespan, lengths, multipliers);
        // The shortest plan exists, so nothing may prove that it does not.
        REQUIRE(certificate.total <= problem.topology.ranks * (1 + 1e-9));
    }
}
