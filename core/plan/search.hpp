// The search of the planner `dcp`: many constructions over many target times, then local search on
// the best of them. What is tried is counted, never timed.
#pragma once

#include <vector>

#include "core/plan/planner.hpp"
#include "core/plan/search_budget.hpp"

namespace dcp::plan {

// The shortest plan found, by exact prediction; its steps in their global order. `bound_seconds`:
// no plan is shorter, what an iteration costs once not included.
Plan search(const Problem& problem, Effort effort, double bound_seconds);

// The same with a budget of one's own, and the cluster in one piece: for studies of what the
// efforts miss.
Plan search(const Problem& problem, const SearchBudget& budget, double bound_seconds);

}  // namespace dcp::plan
