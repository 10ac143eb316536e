// The search of the paper's two planners.
#pragma once

#include <cstddef>

#include "core/plan/problem.hpp"

namespace dcp::plan {

struct PaperPlan {
    Plan plan;
    std::size_t num_trials = 0;     // ways to cut the batch and to choose degrees that differ
    std::size_t num_predicted = 0;  // of those: made plans, for they might have been the shortest
};

// dcp-intra; dcp-inter where activations are not kept.
PaperPlan paper_plan(const Problem& problem, bool keeps_activations);

}  // namespace dcp::plan
