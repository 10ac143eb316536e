#include "core/plan/validate.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::plan {

namespace {

constexpr double kRelative = 1e-9;

// Collects what a message about one step starts with.
struct Place {
    std::size_t step;
    void require(bool is_kept, const std::string& broken) const {
        if (!is_kept) {
            throw PlanError(fmt::format("plan step {}: {}", step, broken));
        }
    }
};

bool is_close(double value, double expected, double scale) {
    return std::isfinite(value) && std::abs(value - expected) <= kRelative * scale;
}

void check_ranks(const Place& place, const Problem& problem, const Step& step) {
    const Topology& topology = problem.topology;
    place.require(!step.world_ranks.empty(), "no ranks");
    int last = -1;
    for (const int rank : step.world_ranks) {
        place.require(rank >= 0 && rank < topology.ranks,
                      fmt::format("rank {} is not one of the {}", rank, topology.ranks));
        place.require(rank > last,
                      fmt::format("rank {} after rank {}: ranks must rise", rank, last));
        last = rank;
    }
    const int degree = step.degree();
    // A filler exchanges nothing, so it is on one rank whatever degrees are allowed.
    place.require(step.is_filler() ||
                      std::binary_search(problem.degrees.begin(), problem.degrees.end(), degree),
                  fmt::format("SP degree {} is not allowed", degree));
    place.require(topology.obeys_node_rule(step.world_ranks),
                  fmt::format("its {} ranks must span exactly {} nodes of {} ranks", degree,
                              topology.nodes_for(degree), topology.ranks_per_node));
}

void check_strategy(const Place& place, const Problem& problem, const Step& step) {
    const Strategy& strategy = step.strategy;
    place.require(strategy.ulysses >= 1 && strategy.ring >= 1 &&
                      strategy.ulysses <= step.degree() && strategy.ring <= step.degree() &&
                      strategy.degree() == step.degree(),
                  fmt::format("Ulysses {} x ring {} does not make {} ranks", strategy.ulysses,
                              strategy.ring, step.degree()));
    place.require(is_possible(strategy, problem.heads),
                  fmt::format("Ulysses degree {} does not divide {} query heads", strategy.ulysses,
                              problem.heads.query));
    const int most = problem.max_recompute_layers();
    place.require(
        step.recompute_layers >= 0 && step.recompute_layers <= most,
        fmt::format("{} recomputed layers, allowed are 0 to {}", step.recompute_layers, most));
}

void check_sequences(const Place& place,
                     const Problem& problem,
                     const Step& step,
                     std::vector<bool>& seen) {
    place.require(
        !step.is_filler() || (problem.step_mode != StepMode::kIndependent && step.degree() == 1),
        "no sequences");
    for (const std::int32_t sequence : step.sequences) {
        place.require(sequence >= 0 && static_cast<std::size_t>(sequence) < seen.size(),
                      fmt::format("sequence {} is not one of the {}", sequence, seen.size()));
        const auto index = static_cast<std::size_t>(sequence);
        place.require(!seen[index], fmt::format("sequence {} is already in a step", sequence));
        seen[index] = true;
    }
}

// Every rank takes a step in every round, rounds follow each other in the plan's order, and where
// the mode says so the steps of a round recompute alike.
void check_rounds(const Problem& problem, const Plan& plan) {
    std::vector<std::size_t> done(static_cast<std::size_t>(problem.topology.ranks), 0);
    std::size_t round = 0;
    int depth = -1;  // of the round; -1: it has no step yet
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        const Step& step = plan.steps[i];
        const Place place{i};
        if (done[static_cast<std::size_t>(step.world_ranks.front())] > round) {
            ++round;
            depth = -1;
            for (std::size_t rank = 0; rank < done.size(); ++rank) {
                place.require(done[rank] == round,
                              fmt::format("round {} begins, and rank {} has taken {} steps", round,
                                          rank, done[rank]));
            }
        }
        for (const int rank : step.world_ranks) {
            place.require(done[static_cast<std::size_t>(rank)]++ == round,
                          fmt::format("rank {} already has a step in round {}", rank, round));
        }
        place.require(problem.step_mode != StepMode::kRoundsOneDepth || depth == -1 ||
                          depth == step.recompute_layers,
                      fmt::format("{} recomputed layers, and {} in another step of its round",
                                  step.recompute_layers, depth));
        depth = step.recompute_layers;
    }
    for (std::size_t rank = 0; rank < done.size(); ++rank) {
        if (done[rank] != done[0]) {
            throw PlanError(
                fmt::format("plan: rank {} takes {} steps and rank 0 takes {}; in "
                            "rounds all take equally many",
                            rank, done[rank], done[0]));
        }
    }
}

void check_step_prediction(const Place& place,
                           const Problem& problem,
                           const Step& step,
                           const Step& expected) {
    place.require(is_close(step.peak_bytes, expected.peak_bytes, expected.peak_bytes),
                  fmt::format("peak_bytes {} is not {}", step.peak_bytes, expected.peak_bytes));
    place.require(expected.peak_bytes <= problem.memory_budget_bytes * (1 + kRelative),
                  fmt::format("{} bytes are over the budget of {}", expected.peak_bytes,
                              problem.memory_budget_bytes));
    place.require(is_close(step.seconds, expected.seconds, expected.seconds),
                  fmt::format("seconds {} is not {}", step.seconds, expected.seconds));
    place.require(is_close(step.start_seconds, expected.start_seconds,
                           expected.start_seconds + expected.seconds),
                  fmt::format("start_seconds {} is not {}, when the last of its ranks is ready",
                              step.start_seconds, expected.start_seconds));
}

}  // namespace

void validate_layout(const Problem& problem, const Plan& plan) {
    std::vector<bool> seen(problem.sequences.size(), false);
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        const Place place{i};
        check_ranks(place, problem, plan.steps[i]);
        check_strategy(place, problem, plan.steps[i]);
        check_sequences(place, problem, plan.steps[i], seen);
    }
    const auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing != seen.end()) {
        throw PlanError(
            fmt::format("plan: sequence {} is in no step", std::distance(seen.begin(), missing)));
    }
    if (problem.step_mode != StepMode::kIndependent) {
        check_rounds(problem, plan);
    }
}

void validate(const Problem& problem, const Plan& plan) {
    validate_layout(problem, plan);
    const Plan expected = predicted(problem, plan.steps);
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        check_step_prediction(Place{i}, problem, plan.steps[i], expected.steps[i]);
    }
    if (!is_close(plan.makespan_seconds, expected.makespan_seconds, expected.makespan_seconds)) {
        throw PlanError(fmt::format("plan: makespan_seconds {} is not {}", plan.makespan_seconds,
                                    expected.makespan_seconds));
    }
    if (!std::isfinite(plan.lower_bound_seconds) || plan.lower_bound_seconds < 0 ||
        plan.lower_bound_seconds > plan.makespan_seconds * (1 + kRelative)) {
        throw PlanError(fmt::format("plan: lower_bound_seconds {} is not from 0 to its makespan {}",
                                    plan.lower_bound_seconds, plan.makespan_seconds));
    }
}

}  // namespace dcp::plan
