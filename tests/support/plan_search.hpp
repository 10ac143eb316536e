// The shortest plan of a tiny problem, by trying every plan there is. Sequences into steps, steps
// in every order, on every group, at every depth.
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

    const Problem& problem_;
    std::vector<std::vector<int>> groups_;
    double best_ = 0;
};

}  // namespace dcp::plan::test
