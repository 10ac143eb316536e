// Topology, strategies, predicted times, and a validator that notices every broken promise.
#include <cmath>
#include <functional>

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

// Six ranks on nodes of four: a pair, everyone, a single rank.
Problem small_problem() {
    Problem problem = test::problem_of({200, 100, 50, 400}, 6, 4);
    problem.heads = {.query = 4, .key_value = 2};
    return problem;
}

std::vector<Step> small_steps() {
    return {{.world_ranks = {1, 3}, .sequences = {0, 2}, .strategy = {2, 1}},
            {.world_ranks = {0, 1, 2, 3, 4, 5}, .sequences = {3}, .strategy = {2, 3}},
            {.world_ranks = {4}, .sequences = {1}, .strategy = {1, 1}}};
}

std::string fault(const Problem& problem, const Plan& plan) {
    try {
        validate(problem, plan);
    } catch (const PlanError& error) {
        CHECK(error.exit_code() == kExitBadInput);
        return error.what();
    }
    return "valid";
}

}  // namespace

TEST_CASE("topology: a group spans the fewest nodes that can hold it", "[unit][plan]") {
    const Topology topology{.ranks = 6, .ranks_per_node = 4};
    CHECK(topology.num_nodes() == 2);
    CHECK(topology.ranks_on(0) == 4);
    CHECK(topology.ranks_on(1) == 2);
    CHECK(topology.obeys_node_rule({0, 3}));
    CHECK(topology.obeys_node_rule({4, 5}));
    CHECK_FALSE(topology.obeys_node_rule({3, 4}));
    CHECK(topology.obeys_node_rule({0, 1, 2, 3}));
    CHECK_FALSE(topology.obeys_node_rule({0, 1, 2, 4}));
    CHECK(topology.obeys_node_rule({0, 1, 2, 4, 5}));
    const Topology uneven{.ranks = 3, .ranks_per_node = 4, .speeds = {1, 0.5, 2}};
    CHECK(uneven.slowest({0, 2}) == 1);
    CHECK(uneven.slowest({0, 1, 2}) == 0.5);
}

TEST_CASE("strategies: Ulysses degrees divide the query heads, a ring takes the rest",
          "[unit][plan]") {
    const Heads heads{.query = 6, .key_value = 2};
    CHECK(possible_strategies(1, heads) == std::vector<Strategy>{{1, 1}});
    CHECK(possible_strategies(4, heads) == std::vector<Strategy>{{2, 2}, {1, 4}});
    CHECK(possible_strategies(6, heads) == std::vector<Strategy>{{6, 1}, {3, 2}, {2, 3}, {1, 6}});
    CHECK(possible_strategies(5, heads) == std::vector<Strategy>{{1, 5}});
    CHECK(preferred_strategy(4, heads) == Strategy{2, 2});
    CHECK(preferred_strategy(5, Heads{}) == Strategy{5, 1});
    for (int query = 0; query <= 24; ++query) {
        for (int degree = 1; degree <= 24; ++degree) {
            const auto all = possible_strategies(degree, {query, 1});
            REQUIRE_FALSE(all.empty());
            CHECK(all.front() == preferred_strategy(degree, {query, 1}));
            for (const Strategy& strategy : all) {
                CHECK(strategy.degree() == degree);
                CHECK(query % strategy.ulysses == 0);
            }
        }
    }
}

TEST_CASE("predicted: a step waits for the last of its ranks", "[unit][plan]") {
    const Problem problem = small_problem();
    const Plan plan = predicted(problem, small_steps());
    CHECK(fault(problem, plan) == "valid");
    const double pair = problem.cost->cost({250, 42'500}, {2, 1}, 0).seconds();
    const double all = problem.cost->cost({400, 160'000}, {2, 3}, 0).seconds();
    const double one = problem.cost->cost({100, 10'000}, {1, 1}, 0).seconds();
    CHECK(plan.steps[0].start_seconds == 0);
    CHECK(plan.steps[1].start_seconds == pair);
    CHECK(plan.steps[2].start_seconds == pair + all);
    CHECK(plan.makespan_seconds == pair + all + one + 0.5);

    const Statistics numbers = statistics(problem, plan);
    const double busy = 2 * pair + 6 * all + one;
    CHECK(numbers.imbalance_ratio ==
          Approx((pair + all + one - busy / 6) / plan.makespan_seconds).epsilon(1e-14));
    CHECK(numbers.tokens_per_second == Approx(750 / plan.makespan_seconds).epsilon(1e-14));
    CHECK(numbers.busy_seconds[0] == all);
    CHECK(numbers.tokens_by_degree == std::map<int, std::int64_t>{{1, 100}, {2, 250}, {6, 400}});
    CHECK(numbers.peak_bytes[4] == plan.steps[2].peak_bytes);
}

TEST_CASE("statistics: rounded sums leave no negative idle time", "[unit][plan]") {
    Problem problem = small_problem();
    problem.topology.ranks = 1;
    Plan plan;
    plan.steps = {{.world_ranks = {0}, .sequences = {0}, .seconds = 0.1},
                  {.world_ranks = {0}, .sequences = {1}, .start_seconds = 0.1, .seconds = 0.2},
                  {.world_ranks = {0}, .sequences = {2}, .start_seconds = 0.3, .seconds = 0.3}};
    plan.makespan_seconds = 0.6;  // 0.1 + 0.2 + 0.3 is more
    const double ratio = statistics(problem, plan).imbalance_ratio;
    CHECK(ratio == 0);
    CHECK_FALSE(std::signbit(ratio));
}

TEST_CASE("predicted: the slowest rank sets the compute time of its group", "[unit][plan]") {
    Problem problem = small_problem();
    problem.topology.speeds = {1, 1, 1, 0.5, 1, 1};
    const Plan plan = predicted(problem, small_steps());
    const StepCost nominal = problem.cost->cost({250, 42'500}, {2, 1}, 0);
    CHECK(plan.steps[0].seconds ==
          nominal.fixed_seconds + 2 * nominal.compute_seconds + nominal.communication_seconds);
    CHECK(fault(problem, plan) == "valid");
}

TEST_CASE("validate notices every broken promise", "[unit][plan]") {
    struct Break {
        const char* message;
        std::function<void(Problem&, Plan&)> spoil;
    };
    const auto first = [](Plan& plan) -> Step& { return plan.steps.front(); };
    const std::vector<Break> breaks = {
        {"sequence 1 is in no step", [](Problem&, Plan& p) { p.steps.pop_back(); }},
        {"sequence 2 is already in a step", [](Problem&, Plan& p) { p.steps[2].sequences = {2}; }},
        {"sequence 4 is not one of the 4", [&](Problem&, Plan& p) { first(p).sequences = {4}; }},
        {"sequence -1 is not one", [&](Problem&, Plan& p) { first(p).sequences = {-1}; }},
        {"no sequences", [&](Problem&, Plan& p) { first(p).sequences.clear(); }},
        {"no ranks", [&](Problem&, Plan& p) { first(p).world_ranks.clear(); }},
        {"rank 1 after rank 3",
         [&](Problem&, Plan& p) {
             first(p).world_ranks = {3, 1};
         }},
        {"rank 1 after rank 1",
         [&](Problem&, Plan& p) {
             first(p).world_ranks = {1, 1};
         }},
        {"rank 6 is not one of the 6",
         [&](Problem&, Plan& p) {
             first(p).world_ranks = {3, 6};
         }},
        {"rank -1 is not one",
         [&](Problem&, Plan& p) {
             first(p).world_ranks = {-1, 3};
         }},
        {"must span exactly 1 nodes",
         [&](Problem&, Plan& p) {
             first(p).world_ranks = {3, 4};
         }},
        {"SP degree 2 is not allowed",
         [](Problem& p, Plan&) {
             p.degrees = {1, 6};
         }},
        {"does not make 2 ranks",
         [&](Problem&, Plan& p) {
             first(p).strategy = {1, 1};
         }},
        {"does not make 2 ranks",
         [&](Problem&, Plan& p) {
             first(p).strategy = {0, 2};
         }},
        {"does not divide 3 query heads", [](Problem& p, Plan&) { p.heads.query = 3; }},
        {"1 recomputed layers, allowed are 0 to 0",
         [&](Problem&, Plan& p) { first(p).recompute_layers = 1; }},
        {"over the budget", [](Problem& p, Plan&) { p.memory_budget_bytes = 70'000; }},
        {"peak_bytes", [&](Problem&, Plan& p) { first(p).peak_bytes *= 1.00001; }},
        {"seconds", [&](Problem&, Plan& p) { first(p).seconds *= 1.00001; }},
        {"start_seconds", [](Problem&, Plan& p) { p.steps[1].start_seconds *= 1.00001; }},
        {"start_seconds", [](Problem&, Plan& p) { std::swap(p.steps[1], p.steps[2]); }},
        {"makespan_seconds", [](Problem&, Plan& p) { p.makespan_seconds -= 0.001; }},
        {"lower_bound_seconds 100 is not from 0 to its makespan",
         [](Problem&, Plan& p) { p.lower_bound_seconds = 100; }},
        {"lower_bound_seconds -1 is not from 0",
         [](Problem&, Plan& p) { p.lower_bound_seconds = -1; }},
        {"lower_bound_seconds nan is not from 0",
         [](Problem&, Plan& p) { p.lower_bound_seconds = std::nan(""); }},
    };
    for (const Break& one : breaks) {
        Problem problem = small_problem();
        Plan plan = predicted(problem, small_steps());
        one.spoil(problem, plan);
        CHECK_THAT(fault(problem, plan), Contains(one.message));
    }
}

TEST_CASE("in debug builds plans are validated on their way", "[unit][plan]") {
    const Problem problem = small_problem();
    Plan plan = make_planner("packed")->plan(problem);
    CHECK(checked(problem, plan) == plan);
    plan.steps.front().seconds *= 2;
#ifdef NDEBUG
    CHECK(checked(problem, plan) == plan);
#else
    CHECK_THROWS_AS(checked(problem, plan), PlanError);
#endif
}

TEST_CASE("validate: recompute depths up to the layers of the model, where allowed",
          "[unit][plan]") {
    Problem problem = small_problem();
    problem.may_recompute = true;
    std::vector<Step> steps = small_steps();
    steps[0].recompute_layers = 4;
    CHECK(fault(problem, predicted(problem, steps)) == "valid");
    steps[0].recompute_layers = 5;
    CHECK_THAT(fault(problem, predicted(problem, steps)), Contains("allowed are 0 to 4"));
}

TEST_CASE("a sequence that fits nowhere is named with what would help", "[unit][plan]") {
    Problem problem = test::problem_of({10, 7001, 20}, 6, 3);
    const auto message = [&]() -> std::string {
        try {
            require_all_fit(problem);
        } catch (const PlanError& error) {
            return error.what();
        }
        return "fits";
    };
    // 6 ranks hold 6000 tokens; with all layers recomputed 450 bytes a token make 13333.
    CHECK_THAT(message(), Contains("sequence 1 (id 101) of 7001 tokens fits nowhere"));
    CHECK_THAT(message(), Contains("SP degree 6, 0 of 4 layers recomputed"));
    CHECK_THAT(message(), Contains("sequences of at most 6000 tokens"));
    CHECK_THAT(message(), Contains("recomputation allowed"));
    problem.may_recompute = true;
    CHECK(message() == "fits");
    problem.degrees = {1, 2};
    CHECK_THAT(message(), Contains("higher SP degrees allowed"));
    CHECK_THAT(message(), Contains("4 of 4 layers recomputed"));
    CHECK_THAT(message(), !Contains("other)") && !Contains("others)"));
    problem.sequences.push_back({.id = 200, .tokens = 9000});
    CHECK_THAT(message(), Contains("of 7001 tokens fits nowhere (nor does 1 other): it needs"));
    problem.sequences.push_back({.id = 201, .tokens = 7001});
    CHECK_THAT(message(), Contains("of 7001 tokens fits nowhere (nor do 2 others): it needs"));
    problem.sequences.resize(3);
    problem.sequences[1].tokens = 30;
    CHECK(message() == "fits");
    problem.longest_tokens = 7001;
    CHECK_THAT(message(), Contains("the longest sequence of the run of 7001 tokens"));
}

TEST_CASE("a problem without sense is refused", "[unit][plan]") {
    const auto refuses = [](auto spoil) {
        Problem problem = small_problem();
        spoil(problem);
        CHECK_THROWS_AS(check_problem(problem), PlanError);
    };
    CHECK_NOTHROW(check_problem(small_problem()));
    refuses([](Problem& p) { p.cost = nullptr; });
    refuses([](Problem& p) {
        ClosedFormConstants constants = test::round_constants();
        constants.squared_token_seconds = 1e305;
        p.cost = std::make_shared<ClosedForm>(constants);
        CHECK_THROWS_WITH(check_problem(p), Contains("750 tokens on 1 rank take inf seconds by the "
                                                     "cost model 'round': its constants"));
    });
    refuses([](Problem& p) { p.topology.ranks = 0; });
    refuses([](Problem& p) { p.topology.ranks_per_node = 0; });
    refuses([](Problem& p) { p.topology.ranks_per_node = kMostRanks + 1; });
    refuses([](Problem& p) { p.topology.speeds = {1}; });
    for (const double speed : {0.0, -1.0, 1e-9, 0.0009, 1001.0, 1e300, HUGE_VAL, std::nan("")}) {
        CAPTURE(speed);
        refuses([speed](Problem& p) { p.topology.speeds = {1, 1, 1, 1, 1, speed}; });
    }
    Problem uneven = small_problem();
    uneven.topology.speeds = {1, 1e-3, 1.0 / 1000, 1e3, 0.5, 2};
    CHECK_NOTHROW(check_problem(uneven));
    uneven.topology.speeds[4] = 1e-9;
    CHECK_THROWS_WITH(
        check_problem(uneven),
        "rank 4 has speed 1e-09, and speeds are from 0.001 to 1000, 1 = as described");
    refuses([](Problem& p) { p.degrees = {}; });
    refuses([](Problem& p) { p.degrees = {0, 1}; });
    refuses([](Problem& p) { p.degrees = {2, 2}; });
    refuses([](Problem& p) { p.degrees = {1, 7}; });
    refuses([](Problem& p) { p.sequences[2].tokens = 0; });
    refuses([](Problem& p) { p.sequences[2].tokens = std::int64_t{1} << 41; });
    refuses([](Problem& p) { p.memory_budget_bytes = 0; });
}
