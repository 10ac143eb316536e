// Whoever else plans, dcp's plan is not longer (in fast effort and with hundreds of sequences: not
// by more than 0.2 %): thousands of random problems and all planners there are, those of others
// included.
#include "tests/support/plan_contest.hpp"
#include <catch2/catch.hpp>

using dcp::plan::Effort;
using dcp::plan::test::contest;

TEST_CASE("fast dcp is not worse than any other planner", "[long][plan]") {
    contest({.first_seed = 20'000,
             .problems = 2500,
             .most_ranks = 32,
             .most_sequences = 100,
             .effort = Effort::kFast});
    contest({.first_seed = 30'000,
             .problems = 200,
             .most_ranks = 64,
             .most_sequences = 700,
             .effort = Effort::kFast,
             .slack = 2e-3});
}

TEST_CASE("background dcp is never worse than any other planner", "[long][plan]") {
    contest({.first_seed = 40'000,
             .problems = 600,
             .most_ranks = 24,
             .most_sequences = 60,
             .effort = Effort::kBackground});
}
