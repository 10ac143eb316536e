// What planners with one SP degree for the whole run share: the degree, and the groups it makes.
#pragma once

#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

// The smallest allowed degree that holds the longest sequence of the run at this recompute depth.
// Degrees that divide the world into equal groups come first; one that leaves ranks idle is taken
// only when none of those holds the sequence. 0: no degree does.
int fixed_degree(const Problem& problem, int recompute_layers);

// As many disjoint groups of one degree as the node rule lets in, lowest ranks first: neighbours
// inside a node, whole nodes where a group needs more than one. At least one.
std::vector<std::vector<int>> equal_groups(const Topology& topology, int degree);

}  // namespace dcp::plan
