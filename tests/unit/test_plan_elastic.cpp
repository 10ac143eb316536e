// Batches that grow: what is added, where it stops, and that nothing else changes.
#include <algorithm>
#include <numeric>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/plan/elastic.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

// What a stream has next: shorter than the longest of the batch more often than not.
std::vector<Sequence> next_sequences(const Problem& problem, std::uint64_t seed) {
    test::Dice dice(seed);
    std::vector<Sequence> next;
    for (std::int64_t i = 0; i < 25; ++i) {
        next.push_back(
            {.id = 1000 + i, .tokens = dice.skewed(std::max<std::int64_t>(1, problem.longest()))});
    }
    return next;
}

double makespan_of_steps(const Problem& problem, const Plan& plan) {
    return plan.makespan_seconds - problem.cost->per_iteration_seconds();
}

// Seconds until each rank has finished its steps.
std::vector<double> ends_of(const Problem& problem, const Plan& plan) {
    std::vector<double> ends(static_cast<std::size_t>(problem.topology.ranks), 0.0);
    for (const Step& step : plan.steps) {
        for (const int rank : step.world_ranks) {
            ends[static_cast<std::size_t>(rank)] = step.start_seconds + step.seconds;
        }
    }
    return ends;
}

// Some rank alone could still run the sequence in the time it has left.
bool has_room_alone(const Problem& problem, const Plan& plan, const Sequence& sequence) {
    const std::vector<double> ends = ends_of(problem, plan);
    for (int rank = 0; rank < problem.topology.ranks; ++rank) {
        for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
            const StepCost cost = cost_of(problem, load_of(sequence), 1, depth);
            const double seconds = cost.seconds() / problem.topology.speed(rank);
            if (cost.peak_bytes <= problem.memory_budget_bytes &&
                ends[static_cast<std::size_t>(rank)] + seconds <
                    makespan_of_steps(problem, plan) * (1 - 1e-9)) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

TEST_CASE("elastic: idle time takes what comes next, by every planner", "[unit][plan]") {
    std::size_t total = 0;
    int stopped = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        Problem base = test::random_problem(seed + 7000, 12, 30);
        if (base.sequences.empty()) {
            continue;
        }
        if (seed % 4 == 0) {
            test::Dice dice(seed);
            for (int rank = 0; rank < base.topology.ranks; ++rank) {
                base.topology.speeds.push_back(dice.chance(0.6) ? 1 : 0.5);
            }
        }
        const std::vector<Sequence> next = next_sequences(base, seed);
        for (const std::string& name : planner_names()) {
            if (name == "dcp" && seed % 10 != 0) {
                continue;  // it thinks longer
            }
            INFO("seed " << seed << ", " << name);
            Problem problem = base;
            const Plan before = make_planner(name, {.seed = seed})->plan(problem);
            Plan plan = before;
            const std::size_t taken = fill_idle_time(problem, plan, next);
            REQUIRE_NOTHROW(validate(problem, plan));  // within memory, among other things
            REQUIRE(plan.makespan_seconds <= before.makespan_seconds * (1 + 1e-9));
            REQUIRE(plan.makespan_seconds >= before.makespan_seconds * (1 - 1e-9));

            // In the order of the stream, behind the batch; the steps of the plan stay.
            REQUIRE(problem.sequences.size() == base.sequences.size() + taken);
            for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
                const std::int64_t id = i < base.sequences.size()
                                            ? base.sequences[i].id
                                            : next[i - base.sequences.size()].id;
                REQUIRE(problem.sequences[i].id == id);
            }
            REQUIRE(std::equal(before.steps.begin(), before.steps.end(), plan.steps.begin()));

            // The first that finds no room ends it: nothing shorter from further behind is taken.
            if (taken < next.size()) {
                ++stopped;
                if (base.degrees.front() == 1) {
                    REQUIRE_FALSE(has_room_alone(problem, plan, next[taken]));
                }
            }
            total += taken;

            Problem again = base;
            Plan same = before;
            REQUIRE(fill_idle_time(again, same, next) == taken);
            REQUIRE(same == plan);
        }
    }
    CHECK(total > 1000);
    CHECK(stopped > 400);
}

TEST_CASE("elastic: a known schedule", "[unit][plan]") {
    // A token takes 1 ms and a microsecond a token squared, a micro-batch 0.1 s: 1000 tokens end at
    // 2.1 s, 500 at 0.85 s. Behind those there is room for 1.25 s: 600 tokens and one more
    // micro-batch (0.1 + 0.6 + 0.36 s) and 100 more in it (0.11 s), then not for 200.
    Problem problem = test::problem_of({1000, 500}, 2, 2);
    problem.degrees = {1};
    Plan plan = predicted(
        problem, {{.world_ranks = {0}, .sequences = {0}}, {.world_ranks = {1}, .sequences = {1}}});
    const std::vector<Sequence> next{{.id = 1, .tokens = 600},
                                     {.id = 2, .tokens = 100},
                                     {.id = 3, .tokens = 200},
                                     {.id = 4, .tokens = 1}};
    CHECK(fill_idle_time(problem, plan, next) == 2);
    REQUIRE(plan.steps.size() == 3);
    CHECK(plan.steps[2].world_ranks == std::vector<int>{1});
    CHECK(plan.steps[2].sequences == std::vector<std::int32_t>{2, 3});
    CHECK(plan.makespan_seconds == Approx(0.5 + 2.1));
}

TEST_CASE("elastic: nothing to add, nothing to add to", "[unit][plan]") {
    Problem problem = test::problem_of({1000, 500}, 2, 2);
    Plan plan = make_planner("packed")->plan(problem);
    const Plan before = plan;
    CHECK(fill_idle_time(problem, plan, {}) == 0);
    CHECK(plan == before);
    Problem none = test::problem_of({}, 2, 2);
    Plan empty = make_planner("packed")->plan(none);
    const std::vector<Sequence> next{{.id = 1, .tokens = 10}};
    CHECK(fill_idle_time(none, empty, next) == 0);
    CHECK(none.sequences.empty());
    // A sequence that no group holds has no room; it is the next batch that says so.
    const std::vector<Sequence> giant{{.id = 1, .tokens = 1'000'000}, {.id = 2, .tokens = 1}};
    CHECK(fill_idle_time(problem, plan, giant) == 0);
}
