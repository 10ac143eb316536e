// The planner dcp: against exhaustive search, against every other planner, and its parts alone.
#include <algorithm>
#include <set>

#include "tests/support/plan_problems.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/plan/bound.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

Plan plan_by(const char* name, const Problem& problem) {
    return make_planner(name)->plan(problem);
}

// Lengths such as text has: many short, few long.
Problem text_like(std::uint64_t seed, int ranks, int sequences) {
    test::Dice dice(seed);
    std::vector<std::int64_t> lengths;
    for (int i = 0; i < sequences; ++i) {
        const double u = dice.uniform();
        lengths.push_back(
            std::min<std::int64_t>(12'000, static_cast<std::int64_t>(30 + 60 * std::pow(u, -0.7))));
    }
    Problem problem = test::problem_of(lengths, ranks, 4);
    problem.memory_budget_bytes = 2'010'000;
    return problem;
}

// What a draft says of itself is what its bins say.
void check_books(const Draft& draft) {
    std::vector<int> seen(draft.problem().sequences.size(), 0);
    std::vector<double> busy(draft.busy().size(), 0.0);
    for (const Bin& bin : draft.bins()) {
        CHECK(bin.load.tokens == load_of(draft.problem(), bin.sequences).tokens);
        CHECK(bin.seconds == Approx(draft.seconds(bin, bin.load)).margin(1e-12));
        for (const std::int32_t sequence : bin.sequences) {
            ++seen[static_cast<std::size_t>(sequence)];
        }
        for (const int rank : bin.world_ranks) {
            busy[static_cast<std::size_t>(rank)] += bin.seconds;
        }
    }
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(seen.size()));
    for (std::size_t rank = 0; rank < busy.size(); ++rank) {
        CHECK(draft.busy()[rank] >= busy[rank] - 1e-9);
    }
}

}  // namespace

TEST_CASE("dcp is near the shortest plan there is", "[unit][plan]") {
    double sum = 0;
    double worst = 0;
    int count = 0;
    for (std::uint64_t seed = 0; seed < 120; ++seed) {
        const Problem problem = test::random_problem(seed, 3, 4);
        if (problem.sequences.empty()) {
            continue;
        }
        const Plan plan = plan_by("dcp", problem);
        REQUIRE_NOTHROW(validate(problem, plan));
        const double shortest = test::ExhaustiveSearch(problem).shortest(plan.makespan_seconds);
        CHECK(plan.lower_bound_seconds <= shortest * (1 + 1e-9));
        sum += plan.makespan_seconds / shortest;
        worst = std::max(worst, plan.makespan_seconds / shortest);
        ++count;
    }
    INFO("over the shortest: mean " << sum / count << ", worst " << worst);
    CHECK(sum / count < 1.01);
}

TEST_CASE("dcp is never longer than another planner", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Problem problem = test::random_problem(seed + 5000, 16, 40);
        const double own = plan_by("dcp", problem).makespan_seconds;
        for (const char* other : {"dcp-inter", "dcp-intra", "bucket", "packed", "random"}) {
            CHECK(own <= plan_by(other, problem).makespan_seconds);
        }
    }
}

TEST_CASE("dcp is close to the bound where there is room for it", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const Problem problem = text_like(seed, 8, 150);
        const Plan plan = plan_by("dcp", problem);
        CHECK(plan.makespan_seconds / plan.lower_bound_seconds < 1.03);
        CHECK(plan_by("dcp", problem) == plan);
    }
}

TEST_CASE("dcp in a hurry: valid, and not far behind", "[unit][plan]") {
    const auto fast = make_planner("dcp", {.effort = Effort::kFast});
    double ratio = 0;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const Problem problem = text_like(seed, 8, 150);
        const Plan plan = fast->plan(problem);
        CHECK_NOTHROW(validate(problem, plan));
        ratio += plan.makespan_seconds / plan_by("dcp", problem).makespan_seconds / 6;
    }
    CHECK(ratio < 1.02);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const Problem problem = test::random_problem(seed, 24, 40);
        CHECK_NOTHROW(validate(problem, fast->plan(problem)));
    }
}

TEST_CASE("dcp uses what the problem offers: speeds, recompute, gaps in the degrees",
          "[unit][plan]") {
    Problem problem = text_like(9, 8, 100);
    const double nominal = plan_by("dcp", problem).makespan_seconds;
    problem.topology.speeds = {1, 1, 1, 1, 1, 1, 1, 0.25};
    const Plan slow = plan_by("dcp", problem);
    CHECK_NOTHROW(validate(problem, slow));
    CHECK(slow.makespan_seconds > nominal);
    CHECK(slow.makespan_seconds < 1.5 * nominal);  // the slow rank does less, not everything waits
    problem.topology.speeds.clear();
    problem.degrees = {2, 4};
    CHECK_NOTHROW(validate(problem, plan_by("dcp", problem)));
    problem.memory_budget_bytes = 400'000;
    problem.degrees = any_degrees(8);
    problem.may_recompute = true;
    const Plan tight = plan_by("dcp", problem);
    CHECK_NOTHROW(validate(problem, tight));
    std::set<int> depths;
    for (const Step& step : tight.steps) {
        depths.insert(step.recompute_layers);
    }
    CHECK(depths.size() > 1);
}

TEST_CASE("costs for searches say what the cost model says", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const Problem problem = test::random_problem(seed, 12, 1);
        const MicroCosts costs(problem);
        for (std::size_t i = 0; i < costs.num_degrees(); ++i) {
            const std::int64_t most = costs.most_tokens(i);
            const int degree = costs.degree(i);
            for (const std::int64_t tokens : {std::int64_t{1}, most / 2, most}) {
                if (tokens == 0 || tokens > most) {
                    continue;
                }
                const Load load = load_of(tokens);
                const MicroCosts::Level* level = costs.level(i, tokens);
                REQUIRE(level != nullptr);
                CHECK(fits(problem, load, degree, level->depth));
                CHECK(
                    costs.seconds(i, load) ==
                    Approx(cost_of(problem, load, degree, level->depth).seconds()).epsilon(1e-12));
                for (int less = 0; less < level->depth; ++less) {
                    CHECK_FALSE(fits(problem, load, degree, less));
                }
            }
            const Load more{most + 1, 0};
            CHECK(costs.level(i, most + 1) == nullptr);
            CHECK_FALSE(fits(problem, more, degree, leanest_depth(problem, more, degree)));
        }
    }
}

TEST_CASE("groups are placed under the node rule where ranks are ready", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        test::Dice dice(seed);
        Topology topology{.ranks = static_cast<int>(dice.between(1, 30)), .ranks_per_node = 1};
        topology.ranks_per_node = static_cast<int>(dice.between(1, topology.ranks));
        std::vector<double> busy;
        for (int rank = 0; rank < topology.ranks; ++rank) {
            busy.push_back(static_cast<double>(dice.between(0, 3)));
        }
        for (int degree = 1; degree <= topology.ranks; ++degree) {
            for (int choice = 0; choice < 5; ++choice) {
                const std::vector<int> group = place_group(topology, busy, degree, choice);
                REQUIRE(group.size() == static_cast<std::size_t>(degree));
                REQUIRE(std::is_sorted(group.begin(), group.end()));
                REQUIRE(std::set<int>(group.begin(), group.end()).size() == group.size());
                REQUIRE((group.front() >= 0 && group.back() < topology.ranks));
                REQUIRE(topology.obeys_node_rule(group));
            }
        }
    }
    // Two ranks that are ready together rather than one soon and one late.
    CHECK(place_group({.ranks = 4, .ranks_per_node = 4}, {0, 5, 5.5, 9}, 2, 0) ==
          std::vector<int>{1, 2});
}

TEST_CASE("constructions and search keep their books", "[unit][plan]") {
    constexpr Filling kFillings[] = {Filling::kFull, Filling::kFullest, Filling::kThrifty};
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Problem problem = test::random_problem(seed, 12, 60);
        if (problem.sequences.empty()) {
            continue;
        }
        const MicroCosts costs(problem);
        const Constructor constructor(problem, costs);
        const double bound =
            lower_bounds(problem).best_seconds() - problem.cost->per_iteration_seconds();
        for (const int packs : {0, 1, 2}) {
            for (const bool nested : {false, true}) {
                const Draft draft =
                    constructor.construct(1.05 * bound, {.nested_degrees = nested,
                                                         .fill_gangs = seed % 2 == 0,
                                                         .filling = kFillings[seed % 3],
                                                         .packs_a_rank = packs,
                                                         .merge_share = 0.8});
                check_books(draft);
                const Draft better = improve(draft, bound, {.moves = 2000, .seed = seed});
                check_books(better);
                CHECK(better.busiest() <= draft.busiest() + 1e-9);
                CHECK_NOTHROW(validate(problem, predicted(problem, better.steps())));
            }
        }
    }
}

TEST_CASE("search levels ranks that a bad draft leaves uneven", "[unit][plan]") {
    const Problem problem = text_like(3, 4, 60);
    const MicroCosts costs(problem);
    Draft draft(problem, costs);
    std::size_t bin = draft.open(0, {0});
    for (std::int32_t sequence = 0; sequence < 60; ++sequence) {
        const Load load = load_of(problem.sequences[static_cast<std::size_t>(sequence)].tokens);
        if (draft.bins()[bin].load.tokens + load.tokens > costs.most_tokens(0)) {
            bin = draft.open(0, {0});
        }
        draft.add(bin, sequence, load_of(problem.sequences[static_cast<std::size_t>(sequence)]));
    }
    const double bound =
        lower_bounds(problem).best_seconds() - problem.cost->per_iteration_seconds();
    CHECK(draft.busiest() > 3 * bound);
    const Draft level = improve(draft, bound, {.moves = 50'000, .seed = 1});
    check_books(level);
    CHECK(level.busiest() < 1.1 * bound);
}
