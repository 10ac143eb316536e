// Where the ranks are and how fast they run.
//
// The one rule of placement (the node rule): a group of p ranks spans exactly the fewest nodes that
// can hold p ranks, ceil(p / ranks_per_node). Inside those nodes any ranks may form a group.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dcp::plan {

inline constexpr int kMostRanks = 1 << 20;  // of a world, and of a node

// What a speed may be: beyond any straggler or mixture of machines. Far below, a plan lasts so long
// beside a micro-batch's fixed cost that searches, which count in those, take hours.
inline constexpr double kLeastSpeed = 1e-3;
inline constexpr double kMostSpeed = 1e3;
// Names the rank, its speed and the range; empty where the speed is inside.
std::string speed_fault(int world_rank, double speed);

struct Topology {
    int ranks = 1;
    int ranks_per_node =
        1;  // node n holds ranks n * ranks_per_node and up; the last may hold fewer
    std::vector<double> speeds;  // of every rank, 1 = what the cost model describes; empty: all 1

    int num_nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
    int node_of(int world_rank) const { return world_rank / ranks_per_node; }
    int ranks_on(int node) const;
    int nodes_for(int degree) const { return (degree + ranks_per_node - 1) / ranks_per_node; }

    // Whether these ranks (sorted, in range, not empty) obey the node rule. Some group of every
    // degree from 1 to `ranks` does: full nodes first, then the last one.
    bool obeys_node_rule(const std::vector<int>& world_ranks) const;

    double speed(int world_rank) const {
        return speeds.empty() ? 1.0 : speeds[static_cast<std::size_t>(world_rank)];
    }
    double slowest(const std::vector<int>& world_ranks) const;
    // What bounds divide a micro-batch's seconds by: the speed of the fastest rank, or 1 where all
    // are slower, for exchanges do not slow down with their ranks.
    double fastest_pace() const;
};

}  // namespace dcp::plan
