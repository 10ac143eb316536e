// Every planner on thousands of random problems and on all small ones: valid, deterministic, and
// what its description says.
#include <algorithm>
#include <map>
#include <set>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/statistics.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;
using Catch::Contains;

namespace {

Plan plan_by(const char* name, const Problem& problem, std::uint64_t seed = 0) {
    return make_planner(name, {.seed = seed})->plan(problem);
}

std::set<int> degrees_of(const Plan& plan) {
    std::set<int> degrees;
    for (const Step& step : plan.steps) {
        degrees.insert(step.degree());
    }
    return degrees;
}

// Calls use(problem) for every list of one to three lengths of {1, 2, 900, 1800} on 1 to 4 ranks
// and every node size.
template <class Use>
void for_all_small(Use use) {
    const std::vector<std::int64_t> lengths{1, 2, 900, 1800};
    for (int ranks = 1; ranks <= 4; ++ranks) {
        for (int node = 1; node <= ranks; ++node) {
            for (int code = 1; code < 125; ++code) {
                std::vector<std::int64_t> batch;
                for (int rest = code; rest > 0; rest /= 5) {
                    if (rest % 5 > 0) {
                        batch.push_back(lengths[static_cast<std::size_t>(rest % 5 - 1)]);
                    }
                }
                if (ranks == 1 && std::count(batch.begin(), batch.end(), 1800) > 0) {
                    continue;  // fits nowhere
                }
                use(test::problem_of(batch, ranks, node));
            }
        }
    }
}

}  // namespace

TEST_CASE("every planner makes valid plans, and the same again", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        const Problem problem = test::random_problem(seed, 24, 40);
        for (const std::string& name : planner_names()) {
            if (name == "dcp" && seed % 60 != 0) {
                continue;  // it thinks for tens of milliseconds
            }
            INFO("planner " << name << ", seed " << seed);
            const Plan plan = plan_by(name.c_str(), problem, seed);
            REQUIRE_NOTHROW(validate(problem, plan));
            if (seed % 10 == 0) {
                REQUIRE(plan_by(name.c_str(), problem, seed) == plan);
            }
        }
    }
}

TEST_CASE("every planner, all small problems", "[unit][plan]") {
    int problems = 0;
    for_all_small([&](const Problem& problem) {
        ++problems;
        for (const char* name : {"dcp-inter", "dcp-intra", "bucket", "packed", "random"}) {
            REQUIRE_NOTHROW(validate(problem, plan_by(name, problem, 5)));
        }
    });
    CHECK(problems == 9 * 124 + 1 * 63);  // on one rank, digits below 4: 4^3 - 1 lists remain
}

TEST_CASE("a batch without sequences is an empty plan", "[unit][plan]") {
    const Problem problem = test::problem_of({}, 4, 2);
    for (const std::string& name : planner_names()) {
        const Plan plan = plan_by(name.c_str(), problem);
        CHECK(plan.steps.empty());
        CHECK(plan.makespan_seconds == 0.5);
        CHECK_NOTHROW(validate(problem, plan));
    }
}

TEST_CASE("every planner refuses what fits nowhere", "[unit][plan]") {
    const Problem problem = test::problem_of({5, 5000}, 4, 2);
    for (const std::string& name : planner_names()) {
        CHECK_THROWS_AS(plan_by(name.c_str(), problem), PlanError);
    }
}

TEST_CASE("an unknown planner is answered with the known ones", "[unit][plan]") {
    CHECK_THROWS_AS(make_planner("best"), ConfigError);
    CHECK_THROWS_WITH(make_planner("best"), Contains("'best'") && Contains("dcp, dcp-inter"));
    for (const std::string& name : planner_names()) {
        CHECK(make_planner(name)->name() == name);
    }
}

TEST_CASE("bucket: one degree, full recompute, length classes apart, turns", "[unit][plan]") {
    Problem problem = test::problem_of({3000, 9, 12, 16, 900, 10, 1500, 700}, 8, 4);
    problem.may_recompute = true;
    // 3000 tokens at 450 bytes a token and a budget for 1,000,000 bytes: two ranks.
    const Plan plan = plan_by("bucket", problem);
    CHECK(degrees_of(plan) == std::set<int>{2});
    std::vector<std::vector<std::int32_t>> batches;
    for (const Step& step : plan.steps) {
        CHECK(step.recompute_layers == 4);
        batches.push_back(step.sequences);
    }
    // One of 3000 costs as much as several of 1024 at most: 900 and 700 may share, and wait to the
    // end for more, as do the short ones; 3000 is full at once; 1500 waits for a second.
    CHECK(batches == std::vector<std::vector<std::int32_t>>{{0}, {6}, {4, 7}, {1, 2, 3, 5}});
    CHECK(plan.steps[3].world_ranks == std::vector<int>{6, 7});
}

TEST_CASE("bucket: the degree holds for the run, not for the batch", "[unit][plan]") {
    Problem problem = test::problem_of({10, 20, 30}, 8, 4);
    CHECK(degrees_of(plan_by("bucket", problem)) == std::set<int>{1});
    CHECK(degrees_of(plan_by("packed", problem)) == std::set<int>{1});
    problem.longest_tokens = 3500;
    CHECK(degrees_of(plan_by("bucket", problem)) == std::set<int>{4});
    CHECK(degrees_of(plan_by("packed", problem)) == std::set<int>{4});
    problem.longest_tokens = 2500;  // three ranks would do, but leave two of eight idle
    CHECK(degrees_of(plan_by("packed", problem)) == std::set<int>{4});
    problem.degrees = {1, 3};
    CHECK(degrees_of(plan_by("packed", problem)) == std::set<int>{3});
}

TEST_CASE("packed: fills the token budget, longest first, and levels the groups", "[unit][plan]") {
    // 1000 tokens a rank: 600 + 400, 500 + 300 + 200.
    const Problem problem = test::problem_of({200, 300, 400, 500, 600}, 2, 2);
    const Plan plan = plan_by("packed", problem);
    REQUIRE(plan.steps.size() == 2);
    CHECK(plan.steps[0].sequences == std::vector<std::int32_t>{4, 2});
    CHECK(plan.steps[1].sequences == std::vector<std::int32_t>{3, 1, 0});
    CHECK(plan.steps[0].world_ranks != plan.steps[1].world_ranks);
}

TEST_CASE("packed: no group idles because one could hold the batch", "[unit][plan]") {
    const Problem problem = test::problem_of({100, 90, 80, 70, 60, 50}, 3, 3);
    const Plan plan = plan_by("packed", problem);
    REQUIRE(plan.steps.size() == 3);
    for (const Step& step : plan.steps) {
        CHECK(load_of(problem, step.sequences).tokens == 150);
    }
}

TEST_CASE("packed: recompute only where it pays", "[unit][plan]") {
    Problem problem = test::problem_of({400, 400, 400, 400}, 1, 1);
    problem.may_recompute = true;
    ClosedFormConstants constants = test::round_constants();
    constants.fixed_seconds = 5;
    // Work of 2.24 s in two steps without recompute, or in one with: 12.24 s against 7.8 s.
    problem.cost = std::make_shared<ClosedForm>(constants);
    Plan plan = plan_by("packed", problem);
    REQUIRE(plan.steps.size() == 1);
    CHECK(plan.steps[0].recompute_layers == 4);
    constants.forward_share = 4;  // 16.2 s
    problem.cost = std::make_shared<ClosedForm>(constants);
    plan = plan_by("packed", problem);
    REQUIRE(plan.steps.size() == 2);
    CHECK(plan.steps[0].recompute_layers == 0);
}

TEST_CASE("dcp-inter: degrees by class, groups by work, full recompute", "[unit][plan]") {
    // The long sequence needs four ranks, the short ones nobody else: groups of four and of one
    // side by side, none of them changed during the iteration.
    Problem problem = test::problem_of({7000, 900, 900, 900, 900, 900, 900, 900, 900}, 8, 8);
    problem.may_recompute = true;
    const Plan plan = plan_by("dcp-inter", problem);
    std::map<int, std::vector<int>> group_of;  // of every rank
    for (const Step& step : plan.steps) {
        CHECK(step.recompute_layers == 4);
        for (const int rank : step.world_ranks) {
            CHECK(group_of.emplace(rank, step.world_ranks).first->second == step.world_ranks);
        }
    }
    CHECK(plan.makespan_seconds <= plan_by("bucket", problem).makespan_seconds);
}

TEST_CASE("dcp-intra: recomputes only what memory asks for", "[unit][plan]") {
    Problem problem = test::problem_of({1800, 900, 900, 900}, 8, 8);
    problem.may_recompute = true;
    const Plan plan = plan_by("dcp-intra", problem);
    double recomputed = 0;
    for (const Step& step : plan.steps) {
        recomputed += step.recompute_layers;
        if (step.recompute_layers > 0) {
            CHECK_FALSE(fits(problem, load_of(problem, step.sequences), step.degree(),
                             step.recompute_layers - 1));
        }
    }
    CHECK(recomputed < 4.0 * static_cast<double>(plan.steps.size()));
    CHECK(plan.makespan_seconds <= plan_by("dcp-inter", problem).makespan_seconds);
}

TEST_CASE("the paper's planners use powers of two only", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Problem problem = test::random_problem(seed, 16, 30);
        problem.degrees = any_degrees(problem.topology.ranks);
        if (problem.topology.ranks != 8 && problem.topology.ranks != 16) {
            continue;
        }
        problem.topology.ranks_per_node = 8;
        for (const char* name : {"dcp-inter", "dcp-intra"}) {
            for (const int degree : degrees_of(plan_by(name, problem))) {
                CHECK((degree & (degree - 1)) == 0);
            }
        }
    }
}

TEST_CASE("random: everything that a plan may hold turns up", "[unit][plan]") {
    std::set<std::pair<int, int>> strategies;
    std::set<std::vector<int>> groups;
    std::set<int> depths;
    int idle_ranks = 0;
    int short_shards = 0;
    int packed_steps = 0;
    int repeated_groups = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        Problem problem = test::problem_of({1, 1, 5, 60, 700, 2500}, 6, 3);
        problem.heads = {.query = 4, .key_value = 2};
        problem.may_recompute = true;
        const Plan plan = plan_by("random", problem, seed);
        std::set<std::vector<int>> here;
        for (const Step& step : plan.steps) {
            strategies.insert({step.strategy.ulysses, step.strategy.ring});
            groups.insert(step.world_ranks);
            repeated_groups += here.insert(step.world_ranks).second ? 0 : 1;
            depths.insert(step.recompute_layers);
            packed_steps += step.sequences.size() > 1 ? 1 : 0;
            short_shards += load_of(problem, step.sequences).tokens < step.degree() ? 1 : 0;
        }
        const Statistics numbers = statistics(problem, plan);
        const auto& busy = numbers.busy_seconds;
        idle_ranks += std::count(busy.begin(), busy.end(), 0.0) > 0 ? 1 : 0;
    }
    // Groups of one node: 2 x 7; of both: 15 of four ranks, 6 of five, one of six.
    CHECK(groups.size() == 14 + 15 + 6 + 1);
    CHECK(groups.count({0, 2}) == 1);
    CHECK(strategies ==
          std::set<std::pair<int, int>>{
              {1, 1}, {2, 1}, {1, 2}, {1, 3}, {4, 1}, {2, 2}, {1, 4}, {1, 5}, {2, 3}, {1, 6}});
    CHECK(depths == std::set<int>{0, 1, 2, 3, 4});
    CHECK(idle_ranks > 200);
    CHECK(idle_ranks < 1900);
    CHECK(short_shards > 200);
    CHECK(packed_steps > 1000);
    CHECK(repeated_groups > 100);
}

TEST_CASE("random: another seed or batch, another plan", "[unit][plan]") {
    const Problem problem = test::problem_of({100, 200, 300, 400, 500, 600}, 8, 4);
    Problem next = problem;
    for (Sequence& sequence : next.sequences) {
        sequence.id += 6;
    }
    CHECK(plan_by("random", problem, 1) != plan_by("random", problem, 2));
    CHECK(plan_by("random", problem, 1) != plan_by("random", next, 1));
}
