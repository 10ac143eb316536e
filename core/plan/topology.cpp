#include "core/plan/topology.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace dcp::plan {

std::string speed_fault(int world_rank, double speed) {
    if (speed >= kLeastSpeed && speed <= kMostSpeed) {
        return "";
    }
    return fmt::format("rank {} has speed {}, and speeds are from {} to {}, 1 = as described",
                       world_rank, speed, kLeastSpeed, kMostSpeed);
}

int Topology::ranks_on(int node) const {
    return std::min(ranks_per_node, ranks - node * ranks_per_node);
}

bool Topology::obeys_node_rule(const std::vector<int>& world_ranks) const {
    int nodes = 0;
    int last = -1;
    for (const int rank : world_ranks) {
        nodes += node_of(rank) != last ? 1 : 0;
        last = node_of(rank);
    }
    return nodes == nodes_for(static_cast<int>(world_ranks.size()));
}

double Topology::slowest(const std::vector<int>& world_ranks) const {
    double least = speed(world_ranks.front());
    for (const int rank : world_ranks) {
        least = std::min(least, speed(rank));
    }
    return least;
}

double Topology::fastest_pace() const {
    double pace = 1;
    for (const double speed : speeds) {
        pace = std::max(pace, speed);
    }
    return pace;
}

}  // namespace dcp::plan
