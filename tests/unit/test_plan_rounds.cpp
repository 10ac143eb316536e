// Plans in rounds: the search, its bound, and both against every plan there is where that can be
// tried.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/support/plan_problems.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/plan/bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/planners.hpp"
#include "core/plan/round_maker.hpp"
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

// One round as RoundMaker makes it, but every degree and every group is weighed for every sequence.
std::vector<Gang> plainly_made(const Problem& problem,
                               const MicroCosts& costs,
                               std::vector<std::int32_t>& left,
                               double limit) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    Placer placer(problem.topology);
    std::vector<Gang> gangs;
    std::erase_if(left, [&](std::int32_t sequence) {
        const Load load = load_of(problem.sequences[static_cast<std::size_t>(sequence)]);
        double least = kNever;
        std::size_t degree_index = 0;
        for (std::size_t i = 0; i < costs.num_degrees(); ++i) {
            const double seconds = costs.seconds(i, load);
            if (seconds <= limit && seconds * costs.degree(i) < least) {
                least = seconds * costs.degree(i);
                degree_index = i;
            }
        }
        Gang* fullest = nullptr;
        double least_room = kNever;
        for (Gang& gang : gangs) {
            Load sum = gang.load;
            const double seconds = costs.seconds(gang.degree_index, sum += load);
            const double growth = (seconds - gang.seconds) * costs.degree(gang.degree_index);
            if (seconds <= limit && growth <= least && limit - seconds < least_room) {
                least_room = limit - seconds;
                fullest = &gang;
            }
        }
        if (fullest == nullptr) {
            const std::vector<int> ranks = placer.choose(costs.degree(degree_index), 0, 0);
            const bool is_free = std::all_of(ranks.begin(), ranks.end(),
                                             [&](int rank) { return placer.ready(rank) == 0; });
            if (least == kNever || !is_free) {
                return false;
            }
            placer.occupy(1);
            fullest = &gangs.emplace_back(Gang{.degree_index = degree_index, .world_ranks = ranks});
        }
        fullest->sequences.push_back(sequence);
        fullest->load += load;
        fullest->seconds = costs.seconds(fullest->degree_index, fullest->load);
        return true;
    });
    return gangs;
}

std::vector<std::int32_t> longest_first(const Problem& problem) {
    std::vector<std::int32_t> order(problem.sequences.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return problem.sequences[static_cast<std::size_t>(a)].tokens >
               problem.sequences[static_cast<std::size_t>(b)].tokens;
    });
    return order;
}

// Least seconds of the sequence on any group, and a little more.
double fastest(const Problem& problem, const MicroCosts& costs, std::int32_t sequence) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < costs.num_degrees(); ++i) {
        least = std::min(
            least,
            costs.seconds(i, load_of(problem.sequences[static_cast<std::size_t>(sequence)])));
    }
    return least * 1.0001;
}

}  // namespace

TEST_CASE("rounds: made quickly they are what they are made plainly", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Problem problem = test::random_problem(seed + 900, 24, 60);
        test::Dice dice(seed);
        for (int rank = 0; seed % 3 == 0 && rank < problem.topology.ranks; ++rank) {
            problem.topology.speeds.push_back(dice.chance(0.6) ? 1 : 0.5);
        }
        INFO("seed " << seed);
        const MicroCosts costs(problem);
        RoundMaker maker(problem, costs);
        std::vector<std::int32_t> left = longest_first(problem);
        while (!left.empty()) {
            const double limit =
                (1 + 5 * dice.uniform() * dice.uniform()) * fastest(problem, costs, left.front());
            std::vector<std::int32_t> left_plainly = left;
            const auto expected = plainly_made(problem, costs, left_plainly, limit);
            const auto made = maker.make(left, limit);
            REQUIRE(left == left_plainly);
            REQUIRE(made.size() == expected.size());
            for (std::size_t i = 0; i < made.size(); ++i) {
                REQUIRE(made[i].sequences == expected[i].sequences);
                REQUIRE(made[i].world_ranks == expected[i].world_ranks);
                REQUIRE(made[i].degree_index == expected[i].degree_index);
            }
        }
    }
}

TEST_CASE("rounds: hundreds of giants are looked at little more than once a round",
          "[unit][plan]") {
    test::Dice dice(3);
    Problem problem = test::problem_of({}, 200, 8);
    for (std::int64_t i = 0; i < 500; ++i) {  // each needs a hundred of the two hundred ranks
        problem.sequences.push_back({.id = i, .tokens = dice.between(93'000, 99'000)});
    }
    const MicroCosts costs(problem);
    RoundMaker maker(problem, costs);
    std::vector<std::int32_t> left = longest_first(problem);
    std::int64_t asked = 0;
    while (!left.empty()) {
        asked += static_cast<std::int64_t>(left.size());
        maker.make(left, 1.5 * fastest(problem, costs, left.front()));
    }
    CHECK(asked > 50'000);
    CHECK(maker.num_looks() < 2 * asked);  // of up to 200 degrees and two groups each
}

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
