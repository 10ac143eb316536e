// Which groups of ranks run at the same time while one SP degree is measured.
#pragma once

#include <vector>

namespace dcp::profile {

struct Placement {
    std::vector<std::vector<int>> groups;  // world ranks, disjoint, each of `degree` ranks
    std::vector<int> left_over;            // ranks of no group
};

// As many groups as there is room for, each on as few nodes as it needs (ranks_per_node
// neighbouring ranks share one), which is how planners place them. ShapeError for a degree below 1
// or above num_ranks.
Placement place_groups(int num_ranks, int ranks_per_node, int degree);

}  // namespace dcp::profile
