// Whoever else plans, dcp's plan is not longer. A sample of the problems that tests/long tries.
#include "tests/support/plan_contest.hpp"
#include <catch2/catch.hpp>

TEST_CASE("dcp is never worse than any other planner", "[unit][plan]") {
    dcp::plan::test::contest({.first_seed = 0,
                              .problems = 120,
                              .most_ranks = 16,
                              .most_sequences = 40,
                              .effort = dcp::plan::Effort::kFast});
    dcp::plan::test::contest({.first_seed = 150,
                              .problems = 40,
                              .most_ranks = 64,
                              .most_sequences = 700,
                              .effort = dcp::plan::Effort::kFast,
                              .slack = 1e-3});
    dcp::plan::test::contest({.first_seed = 10'000,
                              .problems = 12,
                              .most_ranks = 24,
                              .most_sequences = 80,
                              .effort = dcp::plan::Effort::kBackground});
}
