// Promises of all planners on thousands of random problems.
#include "tests/support/plan_properties.hpp"

using namespace dcp::plan;

TEST_CASE("every planner keeps its promises: thousands of problems", "[long][plan]") {
    test::every_planner_keeps_its_promises(
        {.first_seed = 200'000, .problems = 3000, .most_ranks = 24, .most_sequences = 80});
}

TEST_CASE("the promises in background effort, on larger problems", "[long][plan]") {
    test::every_planner_keeps_its_promises({.first_seed = 300'000,
                                            .problems = 100,
                                            .most_ranks = 40,
                                            .most_sequences = 150,
                                            .effort = Effort::kBackground});
}

TEST_CASE("more memory or more ranks: how often dcp gets longer", "[long][plan]") {
    const test::Worsened worsened = test::more_makes_longer({.first_seed = 400'000,
                                                             .problems = 400,
                                                             .most_ranks = 16,
                                                             .most_sequences = 60,
                                                             .effort = Effort::kBackground});
    WARN(fmt::format("longer in {} of {}, at most by {:.2f} %", worsened.count, worsened.of,
                     100 * (worsened.most - 1)));
    INFO(worsened.beyond);
    CHECK(worsened.beyond.empty());
    CHECK(worsened.count <= worsened.of / 20);
}
