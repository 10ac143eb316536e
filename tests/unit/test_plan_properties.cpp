// Promises of all planners on random problems; tests/long tries thousands.
#include "tests/support/plan_properties.hpp"

#include "core/base/errors.hpp"
#include "core/base/units.hpp"

using namespace dcp;
using namespace dcp::plan;

TEST_CASE("every planner keeps its promises in every step mode", "[unit][plan]") {
    test::every_planner_keeps_its_promises(
        {.first_seed = 100'000, .problems = 100, .most_ranks = 12, .most_sequences = 40});
    test::every_planner_keeps_its_promises({.first_seed = 101'000,
                                            .problems = 6,
                                            .most_ranks = 16,
                                            .most_sequences = 60,
                                            .effort = Effort::kBackground});
}

TEST_CASE("dcp: more memory or more ranks hardly ever make it longer", "[unit][plan]") {
    const test::Worsened worsened = test::more_makes_longer({.first_seed = 900,
                                                             .problems = 40,
                                                             .most_ranks = 12,
                                                             .most_sequences = 40,
                                                             .effort = Effort::kBackground});
    INFO(worsened.beyond);
    CHECK(worsened.beyond.empty());
    CHECK(worsened.count <= worsened.of / 10);
}

TEST_CASE("a sequence that fits nowhere is named, with its need and what would make it fit",
          "[unit][plan]") {
    Problem problem = test::problem_of({100, 8000, 200}, 4, 4);  // 4 ranks hold 4000 tokens
    for (const std::string& name : planner_names()) {
        INFO(name);
        try {
            make_planner(name)->plan(problem);
            FAIL("a plan");
        } catch (const PlanError& error) {
            const std::string text = error.what();
            using Catch::Contains;
            CHECK_THAT(text, Contains("sequence 1 (id 101) of 8000 tokens"));
            CHECK_THAT(text, Contains("SP degree 4"));
            CHECK_THAT(text, Contains("the budget is"));
            CHECK_THAT(text, Contains("sequences of at most 4000 tokens"));
            CHECK_THAT(text, Contains("recomputation allowed"));
        }
    }
}

TEST_CASE("a budget that a refusal asks for holds all sequences", "[unit][plan]") {
    for (const std::int64_t longest : {4001, 4444, 5123, 8191, 40'000, 1'234'567}) {
        Problem problem = test::problem_of({100, 4001, longest, 200}, 4, 4);
        try {
            require_all_fit(problem);
            FAIL("it fits");
        } catch (const PlanError& error) {
            const std::string text = error.what();
            const auto between = [&text](const std::string& before, const std::string& after) {
                const std::size_t begin = text.find(before) + before.size();
                return text.substr(begin, text.find(after, begin) - begin);
            };
            INFO(text);
            CHECK(between("needs ", " a rank") != between("the budget is ", ";"));
            const std::string asked = between("a budget of ", ",");
            problem.memory_budget_bytes = static_cast<double>(parse_bytes(asked).value());
            CHECK_NOTHROW(require_all_fit(problem));
        }
    }
}
