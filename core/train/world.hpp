// The ranks of a run, as the trainer sees them: who they are, where they are, and how to talk to
// them. What carries the messages (nothing on one rank, MPI on several) is chosen by the program.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/group_cache.hpp"
#include "comm/local/local_communicator.hpp"
#include "comm/topology.hpp"

namespace dcp::train {

struct World {
    comm::Communicator* all = nullptr;     // every rank
    comm::Communicator* self = nullptr;    // this one alone
    comm::GroupFactory* groups = nullptr;  // makes every other
    comm::Topology topology;
    int ranks_on_node = 1;  // that share this one's memory; the topology may be imagined
    int processors = 0;     // that this rank can count on; 0: all it may use

    int rank() const { return all->group_rank(); }
    int size() const { return all->group_size(); }
    bool is_first() const { return rank() == 0; }  // plans, prints and writes files
};

// A world of one rank, without any library.
class LocalWorld {
public:
    LocalWorld();
    World world();

private:
    comm::LocalCommunicator self_;
    std::unique_ptr<comm::GroupFactory> no_groups_;
};

// Plans know nodes as equal runs of neighbouring ranks. Ranks placed in any other way count as one
// node: plans then are right, and only their idea of which links are slow is not.
int ranks_per_node(const comm::Topology& topology);

// Whether some node has fewer processors than its ranks have threads, so that ranks take turns and
// seconds tell of the others too. Collective, alike on all ranks.
bool share_processors(Queue& queue, const World& world, int threads);

// Runs `action` on every rank; it must not be collective itself. Where it throws on some ranks, all
// throw alike: what the first of them had to say, with its exit code.
void run_on_all(Queue& queue, const World& world, const std::function<void()>& action);

}  // namespace dcp::train
