// The search of the planner `dcp`: many constructions over many target times, then local search on
// the best of them. What is tried is counted, never timed.
#pragma once

#include <vector>

#include "core/plan/planner.hpp"

namespace dcp::plan {

// The shortest plan found, by exact prediction; its steps in their global order. `bound_seconds`:
// no plan is shorter, what an iteration costs once not included.
Plan search(const Problem& problem, Effort effort, double bound_seconds);

}  // namespace dcp::plan
