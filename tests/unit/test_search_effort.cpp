// How long plans may be searched for, so that training never waits for a long search.
#include <limits>

#include <catch2/catch.hpp>

#include "core/train/search_effort.hpp"

using dcp::plan::Effort;
using dcp::train::SearchEffort;

TEST_CASE("a long search is made where it is hidden, and nowhere else", "[unit][train]") {
    SearchEffort effort;
    // Training waits for the first plan of a run, and for one after a replay.
    CHECK(effort.long_makespan_seconds(true) == std::numeric_limits<double>::infinity());
    // A long search takes about a second: ten are more than enough to hide it.
    CHECK(effort.long_makespan_seconds(false) == 10);
    effort.remember(Effort::kFast, 7);  // says nothing of how long a long one takes
    CHECK(effort.long_makespan_seconds(false) == 10);
    effort.remember(Effort::kBackground, 2);
    CHECK(effort.long_makespan_seconds(false) == 10);

    SECTION("one that took too long asks for an iteration three times as long") {
        effort.remember(Effort::kBackground, 30);
        CHECK(effort.long_makespan_seconds(false) == 90);
        CHECK(effort.long_makespan_seconds(true) == std::numeric_limits<double>::infinity());
        effort.remember(Effort::kBackground, 5);  // the last one counts
        CHECK(effort.long_makespan_seconds(false) == 15);
    }
    SECTION("and is forgotten, for something else may have slowed it down") {
        effort.remember(Effort::kBackground, 30);
        double last = effort.long_makespan_seconds(false);
        int iterations = 0;
        while (last > 10) {
            effort.remember(Effort::kFast, 0.01);
            REQUIRE(effort.long_makespan_seconds(false) < last);
            last = effort.long_makespan_seconds(false);
            REQUIRE(++iterations < 100);
        }
        CHECK(last == 10);
        CHECK(iterations > 5);  // not at once
    }
}
