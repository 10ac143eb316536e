#include "comm/topology.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::comm {

std::string Topology::to_string() const {
    std::string text = fmt::format("{} rank{} on {} node{}:", num_ranks, num_ranks == 1 ? "" : "s",
                                   num_nodes, num_nodes == 1 ? "" : "s");
    for (int node = 0; node < num_nodes; ++node) {
        std::vector<int> ranks;
        for (int rank = 0; rank < num_ranks; ++rank) {
            if (node_of_rank[static_cast<std::size_t>(rank)] == node) {
                ranks.push_back(rank);
            }
        }
        fmt::format_to(std::back_inserter(text), "{} {}", node == 0 ? "" : " |",
                       describe_ranks(ranks));
    }
    return text;
}

Topology make_topology(std::span<const int> node_key_of_rank) {
    Topology topology;
    topology.num_ranks = static_cast<int>(node_key_of_rank.size());
    std::map<int, int> node_of_key;
    for (const int key : node_key_of_rank) {
        const auto [found, is_new] = node_of_key.try_emplace(key, topology.num_nodes);
        if (is_new) {
            ++topology.num_nodes;
            topology.ranks_on_node.push_back(0);
        }
        topology.node_of_rank.push_back(found->second);
        topology.local_rank_of_rank.push_back(
            topology.ranks_on_node[static_cast<std::size_t>(found->second)]++);
    }
    return topology;
}

Topology gather_topology(Queue& queue, Communicator& world, int node_key) {
    const auto size = static_cast<std::size_t>(world.group_size());
    std::vector<int> keys(size);
    const std::vector<std::int64_t> one_each(size, 1);
    world.all_gather(queue, ConstTensor(&node_key, DType::kInt32, {1}),
                     Tensor(keys.data(), DType::kInt32, {world.group_size()}), one_each);
    return make_topology(keys);
}

std::optional<int> fake_ranks_per_node() {
    // Read once at the start, before any other thread exists.
    const char* text = std::getenv("DCP_FAKE_RANKS_PER_NODE");  // NOLINT(concurrency-mt-unsafe)
    if (text == nullptr) {
        return std::nullopt;
    }
    int ranks = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, problem] = std::from_chars(text, end, ranks);
    if (problem != std::errc() || stop != end || ranks < 1) {
        throw ConfigError(fmt::format(
            "DCP_FAKE_RANKS_PER_NODE must be a positive number of ranks, not '{}'", text));
    }
    return ranks;
}

}  // namespace dcp::comm
