// A plan: who computes what in one iteration.
//
// Steps stand in one global order. Every rank runs the steps that name it, in that order, so two
// ranks that share two groups meet in the same order and nothing can wait in a circle. A step
// starts when the last of its ranks has finished its previous step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/strategy.hpp"

namespace dcp::plan {

struct Sequence {
    std::int64_t id = 0;        // position in the data set
    std::int64_t tokens = 0;    // at least 1
    std::int64_t frames = 0;    // of a sequence of two dimensions, a divisor of `tokens`; 0: of one
    double squared_tokens = 0;  // as its cost model counts them (weigh()); 0: tokens * tokens
};

struct Step {                             // one micro-batch on one group
    std::vector<int> world_ranks;         // sorted; their number is the SP degree
    std::vector<std::int32_t> sequences;  // positions in Problem::sequences, in packing order
    Strategy strategy;
    int recompute_layers = 0;  // the first so many layers keep only their input

    // Predicted by the cost model.
    double start_seconds = 0;
    double seconds = 0;
    double peak_bytes = 0;  // of each rank

    int degree() const { return static_cast<int>(world_ranks.size()); }
    bool operator==(const Step&) const = default;
};

struct Plan {
    std::vector<Step> steps;
    double makespan_seconds = 0;     // last end + what an iteration costs once
    double lower_bound_seconds = 0;  // no plan of the same problem is shorter; 0: not computed

    bool operator==(const Plan&) const = default;
};

}  // namespace dcp::plan
