// Plans in rounds: all ranks take their steps together, as fully sharded parameters need it.
#pragma once

#include "core/plan/planner.hpp"

namespace dcp::plan {

// The steps of each round, none of which is without any; ranks without a step get fillers.
Plan plan_of_rounds(const Problem& problem, const std::vector<std::vector<Step>>& rounds);

// The steps of any plan dealt to rounds, in their order: a step comes into the first round in which
// all of its ranks are free and, where rounds must recompute alike, its depth can be had. Ranks
// without a step get fillers.
Plan in_rounds(const Problem& problem, std::vector<Step> steps);

// Rounds made for rounds: the shortest plan that a local search (round_search.hpp) finds from many
// constructions, and from `offers`, the steps of other plans dealt to rounds.
Plan plan_rounds(const Problem& problem,
                 Effort effort,
                 const std::vector<std::vector<Step>>& offers);

}  // namespace dcp::plan
