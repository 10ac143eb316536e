#include "core/plan/free_ranks.hpp"

#include <algorithm>

#include "core/plan/gang.hpp"

namespace dcp::plan {

FreeRanks::FreeRanks(const Topology& topology)
    : topology_(topology),
      free_(static_cast<std::size_t>(topology.num_nodes())),
      num_groups_(static_cast<std::size_t>(topology.ranks), 0.0) {
    for (int rank = 0; rank < topology.ranks; ++rank) {
        free_[static_cast<std::size_t>(topology.node_of(rank))].push_back(rank);
    }
}

std::vector<int> FreeRanks::take(int degree, int count) {
    const std::size_t num_ranks =
        static_cast<std::size_t>(degree) * static_cast<std::size_t>(count);
    std::vector<int> taken;
    taken.reserve(num_ranks);
    if (degree > topology_.ranks_per_node) {
        take_across_nodes(degree, num_ranks, taken);
    } else if (degree == 1 && topology_.speeds.empty()) {
        take_singles(num_ranks, taken);
    } else {
        take_inside_nodes(static_cast<std::size_t>(degree), num_ranks, taken);
    }
    if (taken.empty()) {
        take_shared(degree, taken);
    }
    for (const int rank : taken) {
        num_groups_[static_cast<std::size_t>(rank)] += 1;
    }
    return taken;
}

void FreeRanks::take_singles(std::size_t num_ranks, std::vector<int>& taken) {
    for (std::vector<int>& own : free_) {
        const auto count =
            static_cast<std::ptrdiff_t>(std::min(own.size(), num_ranks - taken.size()));
        taken.insert(taken.end(), own.begin(), own.begin() + count);
        own.erase(own.begin(), own.begin() + count);
    }
}

// Nodes of which least is taken come first, and of a node the last ranks.
void FreeRanks::take_inside_nodes(std::size_t degree,
                                  std::size_t num_ranks,
                                  std::vector<int>& taken) {
    const auto per_node = static_cast<std::size_t>(topology_.ranks_per_node);
    for (std::size_t missing = 0; missing + degree <= per_node; ++missing) {
        for (std::size_t node = 0; node < free_.size() && taken.size() < num_ranks; ++node) {
            std::vector<int>& own = free_[node];
            const auto all = static_cast<std::size_t>(topology_.ranks_on(static_cast<int>(node)));
            if (own.size() + missing != all || own.size() < degree) {
                continue;
            }
            const auto first = own.end() - static_cast<std::ptrdiff_t>(degree);
            taken.insert(taken.end(), first, own.end());
            own.erase(first, own.end());
        }
    }
}

// The first nodes that are free altogether, and the first ranks of one more.
void FreeRanks::take_across_nodes(int degree, std::size_t num_ranks, std::vector<int>& taken) {
    const auto per_node = static_cast<std::size_t>(topology_.ranks_per_node);
    const auto num_full = static_cast<std::size_t>(topology_.nodes_for(degree) - 1);
    const std::size_t rest = static_cast<std::size_t>(degree) - num_full * per_node;
    std::vector<std::size_t> full;
    std::size_t next_full = 0;  // nodes before these are of no use any more
    std::size_t next_last = 0;
    while (taken.size() < num_ranks) {
        full.clear();
        for (; next_full < free_.size() && full.size() < num_full; ++next_full) {
            if (free_[next_full].size() == per_node) {
                full.push_back(next_full);
            }
        }
        while (next_last < free_.size() &&
               (free_[next_last].size() < rest ||
                std::binary_search(full.begin(), full.end(), next_last))) {
            ++next_last;
        }
        if (full.size() < num_full || next_last == free_.size()) {
            return;
        }
        const auto begin = static_cast<std::ptrdiff_t>(taken.size());
        for (const std::size_t node : full) {
            taken.insert(taken.end(), free_[node].begin(), free_[node].end());
            free_[node].clear();
        }
        const auto end = free_[next_last].begin() + static_cast<std::ptrdiff_t>(rest);
        taken.insert(taken.end(), free_[next_last].begin(), end);
        free_[next_last].erase(free_[next_last].begin(), end);
        std::sort(taken.begin() + begin, taken.end());
    }
}

void FreeRanks::take_shared(int degree, std::vector<int>& taken) {
    taken = place_group(topology_, num_groups_, degree, 0);
    for (const int rank : taken) {
        std::erase(free_[static_cast<std::size_t>(topology_.node_of(rank))], rank);
    }
}

}  // namespace dcp::plan
