#include "core/plan/gang.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace dcp::plan {

namespace {

// Ranks of every node, soonest first.
class ReadyRanks {
public:
    ReadyRanks(const Topology& topology, const std::vector<double>& busy) : busy_(busy) {
        for (int node = 0; node < topology.num_nodes(); ++node) {
            std::vector<int> ranks(static_cast<std::size_t>(topology.ranks_on(node)));
            std::iota(ranks.begin(), ranks.end(), node * topology.ranks_per_node);
            std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return sooner(a, b); });
            nodes.push_back(std::move(ranks));
        }
    }
    double ready(int rank) const { return busy_[static_cast<std::size_t>(rank)]; }
    bool sooner(int a, int b) const { return ready(a) != ready(b) ? ready(a) < ready(b) : a < b; }

    std::vector<std::vector<int>> nodes;

private:
    const std::vector<double>& busy_;
};

// Full nodes that are ready soonest, then the soonest ranks of one more.
std::vector<int> across_nodes(const Topology& topology, ReadyRanks& ranks, int degree) {
    std::vector<std::vector<int>>& nodes = ranks.nodes;
    const auto node_size = static_cast<std::size_t>(topology.ranks_per_node);
    std::sort(nodes.begin(), nodes.end(),
              [&](const std::vector<int>& a, const std::vector<int>& b) {
                  const bool a_is_full = a.size() == node_size;
                  const bool b_is_full = b.size() == node_size;
                  return a_is_full != b_is_full ? a_is_full : ranks.sooner(a.back(), b.back());
              });
    const auto full = static_cast<std::size_t>(topology.nodes_for(degree) - 1);
    const std::size_t rest = static_cast<std::size_t>(degree) - full * node_size;
    std::size_t last = nodes.size();
    for (std::size_t i = full; i < nodes.size(); ++i) {
        if (nodes[i].size() >= rest &&
            (last == nodes.size() || ranks.sooner(nodes[i][rest - 1], nodes[last][rest - 1]))) {
            last = i;
        }
    }
    std::vector<int> group;
    for (std::size_t i = 0; i < full; ++i) {
        group.insert(group.end(), nodes[i].begin(), nodes[i].end());
    }
    group.insert(group.end(), nodes[last].begin(),
                 nodes[last].begin() + static_cast<std::ptrdiff_t>(rest));
    return group;
}

struct Window {  // ranks [end - count, end) of a node
    double charge;
    std::size_t room;  // ranks of the node that are ready later
    std::size_t node;
    std::size_t end;
};

std::vector<int> inside_a_node(const ReadyRanks& ranks, int degree, int choice) {
    const auto count = static_cast<std::size_t>(degree);
    std::vector<Window> windows;
    for (std::size_t node = 0; node < ranks.nodes.size(); ++node) {
        const std::vector<int>& own = ranks.nodes[node];
        double sum = 0;  // of the ready times in the window
        for (std::size_t end = 1; end <= own.size(); ++end) {
            sum += ranks.ready(own[end - 1]);
            if (end < count) {
                continue;
            }
            const double start = ranks.ready(own[end - 1]);
            const double waits = start * degree - sum;
            sum -= ranks.ready(own[end - count]);
            windows.push_back({.charge = start + 2 * std::max(0.0, waits),
                               .room = own.size() - end,
                               .node = node,
                               .end = end});
        }
    }
    // Of windows that are as good, the one that leaves least of its node to others: other nodes
    // stay whole for wide gangs.
    const auto key = [](const Window& w) { return std::tuple(w.charge, w.room, w.node, w.end); };
    const auto wanted = windows.begin() + static_cast<std::ptrdiff_t>(
                                              static_cast<std::size_t>(choice) % windows.size());
    std::nth_element(windows.begin(), wanted, windows.end(),
                     [&](const Window& a, const Window& b) { return key(a) < key(b); });
    const std::vector<int>& own = ranks.nodes[wanted->node];
    return {own.begin() + static_cast<std::ptrdiff_t>(wanted->end - count),
            own.begin() + static_cast<std::ptrdiff_t>(wanted->end)};
}

}  // namespace

void sort_wide_first(std::vector<Gang>& gangs) {
    std::sort(gangs.begin(), gangs.end(), [](const Gang& a, const Gang& b) {
        if (a.degree_index != b.degree_index) {
            return a.degree_index > b.degree_index;
        }
        return a.seconds != b.seconds ? a.seconds > b.seconds
                                      : a.sequences.front() < b.sequences.front();
    });
}

std::vector<int> place_group(const Topology& topology,
                             const std::vector<double>& busy,
                             int degree,
                             int choice) {
    if (degree == 1) {
        const auto soonest = std::min_element(busy.begin(), busy.end());
        return {static_cast<int>(std::distance(busy.begin(), soonest))};
    }
    ReadyRanks ranks(topology, busy);
    std::vector<int> group = degree > topology.ranks_per_node
                                 ? across_nodes(topology, ranks, degree)
                                 : inside_a_node(ranks, degree, choice);
    std::sort(group.begin(), group.end());
    return group;
}

}  // namespace dcp::plan
