// Gangs where least of the time is lost: on the same few ranks, if others then run whole numbers of
// micro-batches.
#include <algorithm>
#include <vector>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/plan/gang.hpp"
#include "core/plan/planner.hpp"

namespace dcp::plan::test {

namespace {

constexpr Ending kEnding{.seconds = 6, .full_seconds = 2, .fixed_seconds = 1};

// What a gang on these ranks adds to the time that is lost.
double added_loss(const Placer& placer, const std::vector<int>& group, double end) {
    double start = 0;
    for (const int rank : group) {
        start = std::max(start, placer.ready(rank));
    }
    double sum = 0;
    for (const int rank : group) {
        sum += start - placer.ready(rank) + kEnding.lost(kEnding.seconds - end) -
               kEnding.lost(kEnding.seconds - placer.ready(rank));
    }
    return sum;
}

double end_on(const Placer& placer, const Topology& topology, const std::vector<int>& group) {
    double start = 0;
    for (const int rank : group) {
        start = std::max(start, placer.ready(rank));
    }
    return start + 1 / topology.slowest(group);
}

// Every group of neighbours in the order in which a node's ranks become ready.
std::vector<std::vector<int>> groups_of(const Placer& placer, const Topology& topology, int count) {
    std::vector<std::vector<int>> groups;
    for (int node = 0; node < topology.num_nodes(); ++node) {
        std::vector<int> own;
        for (int i = 0; i < topology.ranks_on(node); ++i) {
            own.push_back(node * topology.ranks_per_node + i);
        }
        std::stable_sort(own.begin(), own.end(),
                         [&](int a, int b) { return placer.ready(a) < placer.ready(b); });
        for (std::size_t i = 0; i + static_cast<std::size_t>(count) <= own.size(); ++i) {
            const auto first = own.begin() + static_cast<std::ptrdiff_t>(i);
            groups.emplace_back(first, first + count);
        }
    }
    return groups;
}

}  // namespace

TEST_CASE("of a room is lost what whole micro-batches leave, or the price of one more",
          "[unit][plan]") {
    CHECK(kEnding.lost(0) == 0);
    CHECK(kEnding.lost(4) == 0);
    CHECK(kEnding.lost(4.25) == 0.25);
    CHECK(kEnding.lost(5.5) == 1);
    CHECK(kEnding.lost(0.5) == 0.5);
}

TEST_CASE("fitted gangs stack up where others spread", "[unit][plan]") {
    const Topology topology{.ranks = 16, .ranks_per_node = 8, .speeds = {}};
    Placer placer(topology);
    placer.set_ending(kEnding);
    placer.place(2, Placer::kFitting, 3);
    placer.place(2, Placer::kFitting, 3);
    CHECK(std::ranges::count(placer.ready(), 6.0) == 2);  // as long as three full ones
    CHECK(std::ranges::count(placer.ready(), 0.0) == 14);
    // None of those two ends in time now; across nodes, none that has them.
    placer.place(2, Placer::kFitting, 1);
    CHECK(*std::ranges::max_element(placer.ready()) == 6.0);
    placer.clear();
    placer.place(8, Placer::kFitting, 6);
    placer.place(16, Placer::kFitting, 1);  // nowhere in time, so as soon as can be
    CHECK(std::ranges::count(placer.ready(), 7.0) == 16);
    placer.clear();
    placer.place(2, 0, 3);
    placer.place(2, 0, 3);
    CHECK(std::ranges::count(placer.ready(), 3.0) == 4);
}

TEST_CASE("gangs over several nodes stack up on those that are ready last", "[unit][plan]") {
    const Topology topology{.ranks = 12, .ranks_per_node = 3, .speeds = {}};
    Placer placer(topology);
    placer.set_ending(kEnding);
    CHECK(placer.choose(5, Placer::kFitting, 2).size() == 5);
    placer.occupy(2);
    const std::vector<double> before = placer.ready();
    const std::vector<int> group = placer.choose(5, Placer::kFitting, 2);
    CHECK(topology.obeys_node_rule(group));
    for (const int rank : group) {
        CHECK(before[static_cast<std::size_t>(rank)] == 2);
    }
}

TEST_CASE("gangs over several nodes stand where less is lost, not where ranks are ready last",
          "[unit][plan]") {
    const Topology topology{.ranks = 12, .ranks_per_node = 3, .speeds = {}};
    std::vector<double> ready(6, 1.0);  // 3 s more leave them one full micro-batch,
    ready.resize(12, 2.0);              // and these half of one
    Placer placer(topology, ready);
    placer.set_ending(kEnding);
    CHECK(placer.choose(5, Placer::kFitting, 3).back() < 6);
}

TEST_CASE("no group inside a node loses less than the fitted one", "[unit][plan]") {
    int fitted = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Dice dice(seed);
        const int ranks = static_cast<int>(dice.between(2, 14));
        Topology topology{.ranks = ranks, .ranks_per_node = 5, .speeds = {}};
        std::vector<double> ready;
        for (int rank = 0; rank < ranks; ++rank) {
            ready.push_back(0.5 * static_cast<double>(dice.between(0, 12)));
            if (seed % 2 == 1) {
                topology.speeds.push_back(dice.chance(0.5) ? 1 : 0.5);
            }
        }
        Placer placer(topology, ready);
        placer.set_ending(kEnding);
        const int degree = static_cast<int>(dice.between(1, std::min(ranks, 5)));
        double least = 1e9;
        for (const std::vector<int>& group : groups_of(placer, topology, degree)) {
            if (const double end = end_on(placer, topology, group); end <= kEnding.seconds) {
                least = std::min(least, added_loss(placer, group, end));
            }
        }
        const std::vector<int> chosen = placer.choose(degree, Placer::kFitting, 1);
        INFO("seed " << seed);
        CHECK(topology.obeys_node_rule(chosen));
        if (least < 1e9) {
            const double end = end_on(placer, topology, chosen);
            CHECK(end <= kEnding.seconds);
            CHECK(added_loss(placer, chosen, end) <= least + 0.01);  // later ones first, of equals
            ++fitted;
        } else {
            CHECK(chosen == placer.choose(degree, 0, 1));
        }
    }
    CHECK(fitted > 150);
}

// Pairs take 3 s, as long as one and a half full micro-batches. Two behind each other on half of
// the ranks leave the others three full ones in 6 s; side by side, every rank has half of one too
// much.
TEST_CASE("plans stack gangs where that saves micro-batches", "[unit][plan]") {
    ClosedFormConstants constants = round_constants();
    constants.fixed_seconds = 1;
    constants.token_seconds = 0.01;
    constants.squared_token_seconds = 0;
    constants.per_iteration_seconds = 0;
    constants.bandwidths = {{2, 1e4}};
    constants.latencies = {};
    std::vector<std::int64_t> lengths(16, 200);
    lengths.insert(lengths.end(), 470, 10);  // of 480 that three full ones hold
    Problem problem = problem_of(lengths, 32, 8);
    problem.cost = std::make_shared<ClosedForm>(constants);
    problem.degrees = {1, 2};
    problem.memory_budget_bytes = 110'000;  // 100 tokens a rank
    for (const Effort effort : {Effort::kFast, Effort::kBackground}) {
        const Plan plan = make_planner("dcp", {.effort = effort})->plan(problem);
        CHECK(plan.makespan_seconds < 6.02);
    }
}

}  // namespace dcp::plan::test
