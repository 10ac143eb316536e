// Groups that stay as they are for an iteration, each on ranks that no other has.
#pragma once

#include <cstddef>
#include <vector>

#include "core/plan/topology.hpp"

namespace dcp::plan {

// The groups that place_group() finds one after the other where every group makes its ranks busy,
// but all groups of a degree at once: ranks that are free are all alike.
class FreeRanks {
public:
    explicit FreeRanks(const Topology& topology);  // all of them

    // At most `count` groups that obey the node rule, one behind the other, the ranks of each
    // sorted. Where not even one is free: one that shares ranks.
    std::vector<int> take(int degree, int count);

private:
    // They add to `taken` whatever is free, up to so many ranks.
    void take_singles(std::size_t num_ranks, std::vector<int>& taken);
    void take_inside_nodes(std::size_t degree, std::size_t num_ranks, std::vector<int>& taken);
    void take_across_nodes(int degree, std::size_t num_ranks, std::vector<int>& taken);
    void take_shared(int degree, std::vector<int>& taken);

    const Topology& topology_;
    std::vector<std::vector<int>> free_;  // of every node, sorted
    std::vector<double> num_groups_;      // of every rank
};

}  // namespace dcp::plan
