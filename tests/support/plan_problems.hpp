// Planning problems for tests: cost models with round numbers, and random problems by the thousand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/rng.hpp"
#include "core/plan/closed_form.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan::test {

// 4 layers; a token costs 1 ms and 1000 bytes (250 a layer), a recomputed layer keeps 50 of its
// 250; a micro-batch costs 100 ms; exchange at 1 MB/s in pairs, 0.5 MB/s in fours, 0.1 MB/s in
// eights.
inline ClosedFormConstants round_constants() {
    return {.name = "round",
            .layers = 4,
            .fixed_seconds = 0.1,
            .token_seconds = 1e-3,
            .squared_token_seconds = 1e-6,
            .forward_share = 0.25,
            .per_iteration_seconds = 0.5,
            .communication_token_bytes = 100,
            .bandwidths = {{2, 1e6}, {4, 5e5}, {8, 1e5}},
            .latencies = {{2, 0.01}, {4, 0.03}},
            .static_bytes = 10'000,
            .layer_token_bytes = 250,
            .checkpoint_token_bytes = 50};
}

inline Problem problem_of(const std::vector<std::int64_t>& lengths, int ranks, int ranks_per_node) {
    Problem problem;
    for (const std::int64_t tokens : lengths) {
        problem.sequences.push_back(
            {.id = 100 + static_cast<std::int64_t>(problem.sequences.size()), .tokens = tokens});
    }
    problem.cost = std::make_shared<ClosedForm>(round_constants());
    problem.topology = {.ranks = ranks, .ranks_per_node = ranks_per_node};
    problem.degrees = any_degrees(ranks);
    problem.memory_budget_bytes = 1'010'000;  // 1000 tokens a rank
    return problem;
}

class Dice {
public:
    explicit Dice(std::uint64_t seed) : rng_(seed, "dice", 0) {}
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(rng_.word(next_++) %
                                               static_cast<std::uint64_t>(high - low + 1));
    }
    double uniform() { return rng_.uniform(next_++); }
    bool chance(double probability) { return uniform() < probability; }
    // From 1 to `most`, as likely below its square root as above.
    std::int64_t skewed(std::int64_t most) {
        return std::clamp<std::int64_t>(
            static_cast<std::int64_t>(std::exp(uniform() * std::log(static_cast<double>(most)))), 1,
            most);
    }

private:
    CounterRng rng_;
    std::uint64_t next_ = 0;
};

// A random problem that can be planned: odd rank counts, short last nodes, gaps in the degrees,
// costs without a fixed part, free or dear communication, tight and loose budgets.
inline Problem random_problem(std::uint64_t seed, int most_ranks, int most_sequences) {
    Dice dice(seed);
    ClosedFormConstants constants = round_constants();
    constants.layers = static_cast<int>(dice.between(1, 6));
    constants.fixed_seconds = dice.chance(0.2) ? 0 : dice.uniform();
    constants.squared_token_seconds = dice.chance(0.3) ? 0 : 1e-5 * dice.uniform();
    constants.communication_token_bytes = dice.chance(0.2) ? 0 : 1000 * dice.uniform();
    constants.checkpoint_token_bytes = 250 * dice.uniform();
    constants.per_iteration_seconds = dice.chance(0.5) ? 0 : dice.uniform();
    if (dice.chance(0.3)) {
        constants.latencies.clear();
    }

    const int ranks = static_cast<int>(dice.between(1, most_ranks));
    Problem problem = problem_of({}, ranks, static_cast<int>(dice.between(1, ranks)));
    problem.cost = std::make_shared<ClosedForm>(constants);
    problem.may_recompute = dice.chance(0.5);
    problem.heads = {.query = static_cast<int>(dice.between(0, 12)), .key_value = 1};
    if (dice.chance(0.3)) {
        problem.degrees = power_of_two_degrees(ranks);
    } else if (dice.chance(0.3)) {
        std::erase_if(problem.degrees, [&](int p) { return p < ranks && dice.chance(0.4); });
    }
    const std::int64_t longest = dice.skewed(2000);
    for (std::int64_t count = dice.between(0, most_sequences); count > 0; --count) {
        problem.sequences.push_back({.id = count, .tokens = dice.skewed(longest)});
    }
    // The widest degree must hold the longest sequence; how much more there is differs.
    const Load load = load_of(longest);
    const int widest = problem.degrees.back();
    const double least =
        cost_of(problem, load, widest, leanest_depth(problem, load, widest)).peak_bytes;
    problem.memory_budget_bytes = least * (1 + (dice.chance(0.5) ? 0.2 : 4.0) * dice.uniform());
    return problem;
}

}  // namespace dcp::plan::test
