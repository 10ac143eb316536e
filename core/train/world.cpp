#include "core/train/world.hpp"

#include <algorithm>
#include <span>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/control.hpp"
#include "comm/launch.hpp"
#include "core/base/errors.hpp"

namespace dcp::train {

namespace {

class NoGroups final : public comm::GroupFactory {
public:
    std::unique_ptr<comm::Communicator> make_group(std::span<const int> /*world_ranks*/,
                                                   std::uint64_t /*creation*/) override {
        throw CommError("a world of one rank has no groups");
    }
    std::int64_t communicator_bytes(int /*group_size*/) const override { return 0; }
};

}  // namespace

LocalWorld::LocalWorld() : no_groups_(std::make_unique<NoGroups>()) {}

World LocalWorld::world() {
    const int key = 0;
    return {.all = &self_,
            .self = &self_,
            .groups = no_groups_.get(),
            .topology = comm::make_topology(std::span(&key, 1))};
}

bool share_processors(Queue& queue, const World& world, int threads) {
    double missing = static_cast<double>(threads) * world.ranks_on_node -
                     static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    comm::all_reduce_values(queue, *world.all, std::span(&missing, 1), comm::ReduceOp::kMax);
    return missing > 0;
}

int ranks_per_node(const comm::Topology& topology) {
    const int per_node = topology.ranks_on_node.front();
    for (int rank = 0; rank < topology.num_ranks; ++rank) {
        if (topology.node_of_rank[static_cast<std::size_t>(rank)] != rank / per_node) {
            return topology.num_ranks;
        }
    }
    return per_node;
}

void run_on_all(Queue& queue, const World& world, const std::function<void()>& action) {
    int exit_code = 0;
    std::string message;
    try {
        action();
    } catch (const Error& error) {
        if (world.size() == 1) {
            throw;
        }
        exit_code = error.exit_code();
        message = error.what();
    }
    const auto codes = comm::all_gather_value(queue, *world.all, static_cast<double>(exit_code));
    const auto failed =
        std::find_if(codes.begin(), codes.end(), [](double code) { return code != 0; });
    if (failed == codes.end()) {
        return;
    }
    const auto first = static_cast<int>(failed - codes.begin());
    const auto text = std::as_bytes(std::span(message));
    const auto said = comm::broadcast_bytes(queue, *world.all, {text.begin(), text.end()}, first);
    throw comm::SharedConfigError(
        std::string(reinterpret_cast<const char*>(said.data()), said.size()),
        static_cast<int>(*failed));
}

}  // namespace dcp::train
