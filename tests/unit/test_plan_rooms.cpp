// Where memory is gained by recomputing: how many micro-batches of which depth a room of time
// takes, and how many ranks that needs.
#include <algorithm>
#include <memory>

#include "tests/support/plan_problems.hpp"
#include "tests/support/plan_profiles.hpp"
#include <catch2/catch.hpp>

#include "core/plan/closed_form.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/micro_costs.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/rooms.hpp"

namespace dcp::plan::test {

namespace {

// Of sequences like these, the most tokens in micro-batches that are alike, by trying them all.
double most_tokens_tried(const MicroCosts& costs, double squares, double room) {
    double most = 0;
    for (int count = 1; count <= 64; ++count) {
        std::int64_t held = 0;
        std::int64_t too_many = costs.most_tokens(0) + 1;
        while (too_many - held > 1) {  // seconds rise with tokens
            const std::int64_t tokens = (held + too_many) / 2;
            const Load load{tokens, squares * static_cast<double>(tokens)};
            (count * costs.seconds(0, load) <= room ? held : too_many) = tokens;
        }
        most = std::max(most, static_cast<double>(count * held));
    }
    return most;
}

void check_rooms(const MicroCosts& costs, double squares) {
    const Load like{1000, 1000 * squares};
    const double full = costs.seconds(
        0, {costs.most_tokens(0), squares * static_cast<double>(costs.most_tokens(0))});
    const double target = 2 * full;
    constexpr int kSteps = 3000;
    const Rooms rooms(costs, like, 0, target, kSteps);
    for (double room = full / 20; room < 1.4 * target; room += full / 20) {
        Rooms::Amounts amounts{};
        rooms.add_to(amounts, room);
        // A little less than micro-batches hold, for sequences are whole; more by a step's time.
        const double step = 3 * target / kSteps;
        const double most = most_tokens_tried(costs, squares, room + step);
        CAPTURE(room / full, squares);
        for (const double tokens : amounts) {
            CHECK(tokens >= 0.99 * most_tokens_tried(costs, squares, room - step) - 1);
            CHECK(tokens <= 1.002 * most + 1);  // `most` is whole micro-batches of whole tokens
        }
    }
}

// A rank holds 1,000 tokens, five times as many where all is recomputed, in 24 steps.
Problem deep_problem(int ranks, std::size_t sequences, std::uint64_t seed) {
    Problem problem = problem_of({}, ranks, ranks);
    ClosedFormConstants constants = round_constants();
    constants.layers = 24;
    constants.layer_token_bytes = 1000.0 / 24;
    constants.checkpoint_token_bytes = 200.0 / 24;
    problem.cost = std::make_shared<ClosedForm>(constants);
    problem.may_recompute = true;
    problem.degrees = {1, 2};
    Dice dice(seed);
    for (std::size_t i = 0; i < sequences; ++i) {
        problem.sequences.push_back(
            {.id = static_cast<std::int64_t>(i), .tokens = dice.between(20, 300)});
    }
    return problem;
}

}  // namespace

TEST_CASE("rooms take the micro-batches that are best at any depth", "[unit][plan]") {
    const Problem deep = deep_problem(4, 1, 0);
    for (const double squares : {0.0, 100.0, 5000.0}) {
        check_rooms(MicroCosts(deep), squares);
    }
    Problem flat = deep;
    flat.may_recompute = false;
    check_rooms(MicroCosts(flat), 100);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Problem profiled = random_profile_problem(seed, 4, 3);
        if (const MicroCosts costs(profiled); costs.degree(0) == 1 && costs.most_tokens(0) > 100) {
            check_rooms(costs, 100);
        }
    }
}

TEST_CASE("sequences are spread over as many ranks as their depth needs", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const Problem problem = deep_problem(16, 400, seed);
        const MicroCosts costs(problem);
        const Constructor constructor(problem, costs);
        const Plan plan = make_planner("dcp", {.effort = Effort::kFast})->plan(problem);
        const double target = 1.01 * plan.lower_bound_seconds;
        const Draft draft = constructor.construct(target, {.fill_gangs = false});
        CAPTURE(seed, draft.busiest() / target);
        CHECK(draft.busiest() < 1.02 * target);
        CHECK(plan.makespan_seconds < 1.02 * plan.lower_bound_seconds);
    }
}

}  // namespace dcp::plan::test
