// Which ranks share a node. Plain numbers, known alike on every rank; where they come from is the
// business of comm/mpi (or of a test).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace dcp::comm {

struct Topology {
    int num_ranks = 0;
    int num_nodes = 0;
    std::vector<int> node_of_rank;        // nodes are numbered in the order of their first rank
    std::vector<int> local_rank_of_rank;  // position among the ranks of its node
    std::vector<int> ranks_on_node;       // how many

    std::string to_string() const;  // "4 ranks on 2 nodes: 0-1 | 2-3"
    bool operator==(const Topology&) const = default;
};

// Ranks with equal keys share a node; the keys themselves mean nothing.
Topology make_topology(std::span<const int> node_key_of_rank);

// Collective over the world: each rank tells its key.
Topology gather_topology(Queue& queue, Communicator& world, int node_key);

// Environment variable DCP_FAKE_RANKS_PER_NODE=M: rank r is taken to be on node r / M, so that
// plans for several nodes can be tried on one. ConfigError when it is set to anything but a
// positive number.
std::optional<int> fake_ranks_per_node();

}  // namespace dcp::comm
