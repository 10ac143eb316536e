// Plans of real lengths under FlexSP's constants, where a part of the search decides.
#include <string>

#include <catch2/catch.hpp>

#include "core/lengths/stream.hpp"
#include "core/plan/planner.hpp"
#include "core/train/cost_source.hpp"
#include "core/train/file_cost.hpp"

namespace dcp {

namespace {

// Batch `number` of those that this distribution draws from seed 0; powers of two, nodes of eight.
plan::Problem problem_of_batch(
    const char* distribution, std::int64_t max_tokens, int ranks, std::int64_t size, int number) {
    const std::string path = std::string(DCP_SOURCE_DIR) + "/configs/costs/flexsp-gpt-7b.yaml";
    plan::Problem problem = train::planning_problem(
        train::planning_cost(train::read_any_cost_file(path), path, std::nullopt, ranks, 8), ranks);
    problem.degrees = plan::power_of_two_degrees(ranks);
    const auto stream = lengths::drawn(lengths::parse_distribution(distribution), 0, max_tokens);
    for (; number > 0; --number) {
        lengths::next_batch(*stream, {.sequences = size}, size);
    }
    for (const lengths::Item& item : lengths::next_batch(*stream, {.sequences = size}, size)) {
        problem.sequences.push_back({.id = item.id, .tokens = item.length.tokens});
    }
    return problem;
}

plan::Plan planned(const plan::Problem& problem, plan::Effort effort) {
    return plan::make_planner("dcp", {.effort = effort})->plan(problem);
}

}  // namespace

// Split where eight ranks cannot hold them, this batch fills 99 % of the memory of four
// micro-batches a rank. Best fit alone needs a fifth on some ranks: 6.6 % over the bound.
TEST_CASE("background search packs exactly where memory is short", "[unit][plan]") {
    const plan::Problem problem = problem_of_batch("wlb-llm", 49'152, 8, 64, 16);
    const plan::Plan plan = planned(problem, plan::Effort::kBackground);
    CHECK(plan.makespan_seconds < 1.045 * plan.lower_bound_seconds);
}

// With few ranks for the short sequences, or rooms of time judged at a few depths only, fast plans
// were 2 to 6 % longer than those of background effort.
TEST_CASE("with recomputation fast effort is near background effort", "[unit][plan]") {
    for (const char* distribution : {"wikipedia", "wlb-llm"}) {
        plan::Problem problem = problem_of_batch(distribution, 196'608, 64, 512, 0);
        problem.may_recompute = true;
        const double fast = planned(problem, plan::Effort::kFast).makespan_seconds;
        const double background = planned(problem, plan::Effort::kBackground).makespan_seconds;
        CAPTURE(distribution);
        CHECK(fast < 1.01 * background);
        CHECK(background < 1.005 * fast);  // longer search is not a worse one
    }
}

// Two giants on 16 ranks take all of the time of the first search's plan, 9.3 % over the bound. A
// second search that may give no gang such a degree gets to 6.1 %, one that may to 7.6 %.
TEST_CASE("far from the bound no gang may again take all of the time", "[unit][plan]") {
    plan::Problem problem = problem_of_batch("wikipedia", 196'608, 64, 512, 34);
    problem.may_recompute = true;
    const plan::Plan plan = planned(problem, plan::Effort::kFast);
    CHECK(plan.makespan_seconds < 1.07 * plan.lower_bound_seconds);
}

// 196,608 tokens take all ranks for two thirds of the time, and one rank cannot do in the rest what
// it could do in all of it, with recomputation. Outlined without the giant's time the plan is 24 %
// over the bound, outlined with it but arranged without 17 %, and 13 % where both know of it.
TEST_CASE("what goes to single ranks goes behind the gangs of all ranks", "[unit][plan]") {
    plan::Problem problem = problem_of_batch("wikipedia", 196'608, 64, 512, 65);
    problem.may_recompute = true;
    const plan::Plan plan = planned(problem, plan::Effort::kFast);
    CHECK(plan.makespan_seconds < 1.15 * plan.lower_bound_seconds);
}

}  // namespace dcp
