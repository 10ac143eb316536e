// The shortest plan of a tiny problem, by trying every plan there is. Sequences into steps, steps
// in every order, on every group, at every depth; or in rounds, in every round.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan::test {

class ExhaustiveSearch {
public:
    explicit ExhaustiveSearch(const Problem& problem) : problem_(problem) {
        for (unsigned mask = 1; mask < 1U << problem.topology.ranks; ++mask) {
            std::vector<int> ranks;
            for (int rank = 0; rank < problem.topology.ranks; ++rank) {
                if ((mask >> rank & 1U) != 0) {
                    ranks.push_back(rank);
                }
            }
            const bool is_allowed =
                std::find(problem.degrees.begin(), problem.degrees.end(),
                          static_cast<int>(ranks.size())) != problem.degrees.end();
            if (is_allowed && problem.topology.obeys_node_rule(ranks)) {
                groups_.push_back(ranks);
            }
        }
    }

    // Shorter than `known`, or `known`.
    double shortest(double known) {
        best_ = known;
        if (problem_.step_mode != StepMode::kIndependent) {
            fill_round((1U << problem_.sequences.size()) - 1, 0, 0, 0);
            return best_;
        }
        std::vector<double> ready(static_cast<std::size_t>(problem_.topology.ranks), 0.0);
        place((1U << problem_.sequences.size()) - 1, ready);
        return best_;
    }

private:
    // The least seconds of a set of sequences on a group; infinity if nothing holds it.
    double seconds(unsigned set, const std::vector<int>& ranks) const {
        Step step{.world_ranks = ranks};
        for (std::size_t i = 0; i < problem_.sequences.size(); ++i) {
            if ((set >> i & 1U) != 0) {
                step.sequences.push_back(static_cast<std::int32_t>(i));
            }
        }
        step.strategy = preferred_strategy(step.degree(), problem_.heads);
        double least = std::numeric_limits<double>::infinity();
        for (int depth = 0; depth <= problem_.max_recompute_layers(); ++depth) {
            step.recompute_layers = depth;
            const StepCost cost = cost_of(problem_, step);
            if (cost.peak_bytes <= problem_.memory_budget_bytes) {
                least = std::min(least, cost.seconds());
            }
        }
        return least;
    }

    void place(unsigned left, const std::vector<double>& ready) {
        const double end =
            *std::max_element(ready.begin(), ready.end()) + problem_.cost->per_iteration_seconds();
        if (end >= best_) {
            return;
        }
        if (left == 0) {
            best_ = end;
            return;
        }
        for (unsigned set = left; set > 0; set = (set - 1) & left) {
            for (const std::vector<int>& ranks : groups_) {
                double start = 0;
                for (const int rank : ranks) {
                    start = std::max(start, ready[static_cast<std::size_t>(rank)]);
                }
                std::vector<double> next = ready;
                for (const int rank : ranks) {
                    next[static_cast<std::size_t>(rank)] = start + seconds(set, ranks);
                }
                place(left & ~set, next);
            }
        }
    }

    // In rounds: another micro-batch of this round, or the next round. Depths of a round may
    // differ.
    void fill_round(unsigned left, unsigned taken, double before, double longest) {
        const double end = before + longest + problem_.cost->per_iteration_seconds();
        if (end >= best_) {
            return;
        }
        if (left == 0) {
            best_ = end;
            return;
        }
        for (const std::vector<int>& ranks : groups_) {
            unsigned group = 0;
            for (const int rank : ranks) {
                group |= 1U << rank;
            }
            if ((group & taken) != 0) {
                continue;
            }
            for (unsigned set = left; set > 0; set = (set - 1) & left) {
                fill_round(left & ~set, taken | group, before,
                           std::max(longest, seconds(set, ranks)));
            }
        }
        if (taken != 0) {
            fill_round(left, 0, before + longest, 0);
        }
    }

    const Problem& problem_;
    std::vector<std::vector<int>> groups_;
    double best_ = 0;
};

}  // namespace dcp::plan::test
