// The re-implemented planners of others: valid plans of anything, the expected plan of small cases,
// and never shorter than ours.
#include "tests/bench/rivals/rivals.hpp"
#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::bench;
using namespace dcp::plan;

namespace {

// Costs without communication: a token 1 ms, a squared token 1 us, a micro-batch 0.1 s, 1000 tokens
// a rank.
Problem plain_problem(const std::vector<std::int64_t>& lengths, int ranks) {
    ClosedFormConstants constants = plan::test::round_constants();
    constants.communication_token_bytes = 0;
    constants.latencies.clear();
    constants.per_iteration_seconds = 0;
    Problem problem = plan::test::problem_of(lengths, ranks, ranks);
    problem.cost = std::make_shared<ClosedForm>(constants);
    return problem;
}

void require_valid(const Planner& planner, const Problem& problem) {
    INFO("planner " << planner.name());
    const Plan plan = planner.plan(problem);
    REQUIRE_NOTHROW(validate(problem, plan));
}

}  // namespace

TEST_CASE("rivals plan any problem validly", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        const Problem problem = plan::test::random_problem(seed, 16, 40);
        INFO("seed " << seed);
        require_valid(FcpPlanner(), problem);
        require_valid(MegatronPlanner(), problem);
    }
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Problem problem = plan::test::random_problem(seed, 8, 12);
        INFO("seed " << seed);
        require_valid(FlexSpPlanner({.limit_seconds = 0.05, .chunk_counts = 2}), problem);
    }
}

TEST_CASE("a sequence that fits nowhere is named by rivals too", "[unit][plan]") {
    const Problem problem = plan::test::problem_of({5000}, 4, 2);
    CHECK_THROWS_AS(FcpPlanner().plan(problem), PlanError);
    CHECK_THROWS_AS(MegatronPlanner().plan(problem), PlanError);
    CHECK_THROWS_AS(FlexSpPlanner({}).plan(problem), PlanError);
}

TEST_CASE("FCP gives the ranks that are left to the slowest group", "[unit][plan]") {
    // 1800 tokens need two ranks, 900 one. Of five ranks the fourth and fifth go to the long one:
    // (1.8 + 3.24) / 4 + 0.1 = 1.36 s beside 0.9 + 0.81 + 0.1 = 1.81 s, so one more for the short
    // would have to come from it: with 3 and 2, 1.78 s and 0.955 s.
    const Plan plan = FcpPlanner().plan(plain_problem({900, 1800}, 5));
    REQUIRE(plan.steps.size() == 2);
    CHECK(plan.steps[0].world_ranks == std::vector<int>{0, 1, 2});
    CHECK(plan.steps[0].sequences == std::vector<std::int32_t>{1});
    CHECK(plan.steps[1].world_ranks == std::vector<int>{3, 4});
    CHECK(plan.makespan_seconds == Approx(0.1 + (1.8 + 3.24) / 3));
}

TEST_CASE("FCP packs into the tightest group and takes another phase where ranks end",
          "[unit][plan]") {
    // 1500 opens a group of two ranks with 500 left, 800 one with 200 left; 200 goes to the
    // tightest. The third group finds no rank and waits.
    const Plan plan = FcpPlanner().plan(plain_problem({200, 800, 1500, 900}, 3));
    REQUIRE(plan.steps.size() == 3);
    CHECK(plan.steps[0].sequences == std::vector<std::int32_t>{2});
    CHECK(plan.steps[0].world_ranks == std::vector<int>{0, 1});
    CHECK(plan.steps[1].sequences == std::vector<std::int32_t>{3});
    CHECK(plan.steps[1].world_ranks == std::vector<int>{2});
    CHECK(plan.steps[2].sequences == std::vector<std::int32_t>{1, 0});
    CHECK(plan.steps[2].degree() == 3);  // a phase of its own: all ranks
}

TEST_CASE("Megatron's greedy caps the work of a micro-batch by its first sequence",
          "[unit][plan]") {
    // Work is s^2 / degree. 2000 tokens on two ranks: 2.0e6, cap 2.1e6. 1000 opens a rank of its
    // own (1.0e6), as does 900; 600 has no room beside either and opens nothing: no rank is left.
    const Plan plan = MegatronPlanner().plan(plain_problem({2000, 1000, 900, 600}, 4));
    REQUIRE(plan.steps.size() == 4);
    CHECK(plan.steps[0].degree() == 2);
    CHECK(plan.steps[0].sequences == std::vector<std::int32_t>{0});
    CHECK(plan.steps[1].degree() == 1);
    CHECK(plan.steps[2].degree() == 1);
    CHECK(plan.steps[3].sequences == std::vector<std::int32_t>{3});
    CHECK(plan.steps[3].degree() == 4);  // alone in its micro-batch: doubled until all ranks work
}

TEST_CASE("Megatron's greedy takes all ranks where their number is no power of two",
          "[unit][plan]") {
    const Plan plan = MegatronPlanner().plan(plain_problem({2000, 1000, 900, 600}, 3));
    REQUIRE(plan.steps.size() == 2);
    CHECK(plan.steps[0].degree() == 3);
    CHECK(plan.steps[0].sequences == std::vector<std::int32_t>{0, 1});
    CHECK(plan.steps[1].degree() == 3);
    CHECK(plan.steps[1].sequences == std::vector<std::int32_t>{2, 3});
}

TEST_CASE("FlexSP's program finds the mixed split", "[unit][plan]") {
    // Eight ranks hold all 6500 tokens at once. The long one needs four ranks; exchange among four
    // is slow, so the short ones run in pairs of ranks: (2.5 + 6.25) / 4 + 0.1 + 0.625 s for the
    // long, 4 / 2 + 0.1 + 0.1 s for two short. With four ranks for all, the short take 3.1 s.
    Problem problem = plain_problem({2500, 1000, 1000, 1000, 1000}, 8);
    ClosedFormConstants constants = plan::test::round_constants();
    constants.bandwidths = {{2, 1e6}, {4, 1e5}, {8, 1e4}};
    constants.latencies.clear();
    constants.per_iteration_seconds = 0;
    problem.cost = std::make_shared<ClosedForm>(constants);
    const PhasedPlan flexsp =
        FlexSpPlanner({.limit_seconds = 10, .chunk_counts = 1}).phased(problem);
    const std::vector<Step>& steps = flexsp.plan.steps;
    REQUIRE(steps.size() == 3);
    CHECK(steps[0].degree() == 4);
    CHECK(steps[0].sequences == std::vector<std::int32_t>{0});
    CHECK(steps[1].degree() == 2);
    CHECK(steps[1].sequences.size() == 2);
    CHECK(steps[2].degree() == 2);
    CHECK(steps[2].sequences.size() == 2);
    CHECK(flexsp.plan.makespan_seconds == Approx(2.9125));
    CHECK(flexsp.barrier_seconds == Approx(2.9125));
}
