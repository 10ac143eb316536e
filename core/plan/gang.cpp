#include "core/plan/gang.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace dcp::plan {

bool Placer::Window::operator<(const Window& other) const {
    if (charge != other.charge) {
        return charge < other.charge;
    }
    // Of windows that are as good, the one that leaves least of its node to others: other nodes
    // stay whole for wide gangs.
    return std::tie(room, node, end) < std::tie(other.room, other.node, other.end);
}

Placer::Placer(const Topology& topology)
    : Placer(topology, std::vector<double>(static_cast<std::size_t>(topology.ranks), 0.0)) {}

Placer::Placer(const Topology& topology, const std::vector<double>& ready)
    : topology_(topology), state_{.ready = ready, .soonest = {}} {
    state_.soonest.resize(ready.size());
    std::iota(state_.soonest.begin(), state_.soonest.end(), 0);
    for (int node = 0; node <= topology.num_nodes(); ++node) {
        begins_.push_back(
            static_cast<std::size_t>(std::min(node * topology.ranks_per_node, topology.ranks)));
    }
    node_order_.resize(begins_.size() - 1);
    for (std::size_t node = 0; node < node_order_.size(); ++node) {
        sort_node(node);
    }
}

void Placer::clear() {
    std::fill(state_.ready.begin(), state_.ready.end(), 0.0);
    std::iota(state_.soonest.begin(), state_.soonest.end(), 0);
}

// Insertion sort: a node has few ranks, and most of them are in order.
void Placer::sort_node(std::size_t node) {
    const std::span<int> ranks = ranks_of(node);
    for (std::size_t i = 1; i < ranks.size(); ++i) {
        const int rank = ranks[i];
        std::size_t place = i;
        for (; place > 0 && sooner(rank, ranks[place - 1]); --place) {
            ranks[place] = ranks[place - 1];
        }
        ranks[place] = rank;
    }
}

double Placer::charge(
    std::span<const int> own, std::size_t end, int degree, double ready_sum, double seconds) const {
    const double start = ready(own[end - 1]);
    double charge = start + 2 * std::max(0.0, start * degree - ready_sum);
    if (!topology_.speeds.empty()) {
        double slowest = topology_.speed(own[end - 1]);
        for (std::size_t i = end - static_cast<std::size_t>(degree); i < end; ++i) {
            slowest = std::min(slowest, topology_.speed(own[i]));
        }
        charge += seconds / slowest;
    }
    return charge;
}

// Keeps the best `choice` + 1 windows, best first.
void Placer::inside_a_node(int degree, int choice, double seconds) {
    const auto count = static_cast<std::size_t>(degree);
    std::size_t num_windows = 0;
    for (std::size_t node = 0; node < node_order_.size(); ++node) {
        const std::size_t size = begins_[node + 1] - begins_[node];
        num_windows += size < count ? 0 : size - count + 1;
    }
    const std::size_t most = static_cast<std::size_t>(choice) % num_windows + 1;
    windows_.clear();
    for (std::size_t node = 0; node < node_order_.size(); ++node) {
        const std::span<const int> own = ranks_of(node);
        double sum = 0;  // of the ready times in the window
        for (std::size_t end = 1; end <= own.size(); ++end) {
            const double start = ready(own[end - 1]);
            sum += start;
            if (end < count) {
                continue;
            }
            if (windows_.size() == most && start > windows_.back().charge) {
                break;  // later ones start later still
            }
            const Window found{.charge = charge(own, end, degree, sum, seconds),
                               .room = own.size() - end,
                               .node = node,
                               .end = end};
            sum -= ready(own[end - count]);
            if (windows_.size() == most) {
                if (!(found < windows_.back())) {
                    continue;
                }
                windows_.pop_back();
            }
            windows_.insert(std::upper_bound(windows_.begin(), windows_.end(), found), found);
        }
    }
    const Window& wanted = windows_.back();
    const std::span<const int> own = ranks_of(wanted.node);
    group_.assign(own.begin() + static_cast<std::ptrdiff_t>(wanted.end - count),
                  own.begin() + static_cast<std::ptrdiff_t>(wanted.end));
}

// Full nodes that are ready soonest, then the soonest ranks of one more.
void Placer::across_nodes(int degree, int choice) {
    const auto node_size = static_cast<std::size_t>(topology_.ranks_per_node);
    std::iota(node_order_.begin(), node_order_.end(), std::size_t{0});
    // Only the last node may be short.
    const auto full_end =
        node_order_.end() - (ranks_of(node_order_.size() - 1).size() < node_size ? 1 : 0);
    std::sort(node_order_.begin(), full_end, [&](std::size_t a, std::size_t b) {
        return sooner(ranks_of(a).back(), ranks_of(b).back());
    });
    const auto num_full = static_cast<std::size_t>(topology_.nodes_for(degree) - 1);
    const std::size_t rest = static_cast<std::size_t>(degree) - num_full * node_size;
    const auto choices = static_cast<std::size_t>(std::distance(node_order_.begin(), full_end));
    std::rotate(node_order_.begin(),
                node_order_.begin() +
                    static_cast<std::ptrdiff_t>(static_cast<std::size_t>(choice) % choices),
                full_end);
    std::size_t last = node_order_.size();
    for (std::size_t i = num_full; i < node_order_.size(); ++i) {
        const std::span<const int> own = ranks_of(node_order_[i]);
        if (own.size() >= rest && (last == node_order_.size() ||
                                   sooner(own[rest - 1], ranks_of(node_order_[last])[rest - 1]))) {
            last = i;
        }
    }
    group_.clear();
    for (std::size_t i = 0; i < num_full; ++i) {
        const std::span<const int> own = ranks_of(node_order_[i]);
        group_.insert(group_.end(), own.begin(), own.end());
    }
    const std::span<const int> own = ranks_of(node_order_[last]);
    group_.insert(group_.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(rest));
}

const std::vector<int>& Placer::choose(int degree, int choice, double seconds) {
    if (degree > topology_.ranks_per_node) {
        across_nodes(degree, choice);
    } else {
        inside_a_node(degree, choice, seconds);
    }
    std::sort(group_.begin(), group_.end());
    return group_;
}

double Placer::occupy(double seconds) {
    double start = 0;
    for (const int rank : group_) {
        start = std::max(start, ready(rank));
    }
    const double end = start + seconds / topology_.slowest(group_);
    for (const int rank : group_) {
        state_.ready[static_cast<std::size_t>(rank)] = end;
    }
    int sorted = -1;
    for (const int rank : group_) {
        if (const int node = topology_.node_of(rank); node != sorted) {
            sort_node(static_cast<std::size_t>(node));
            sorted = node;
        }
    }
    return end;
}

void sort_wide_first(std::vector<Gang>& gangs) {
    std::stable_sort(gangs.begin(), gangs.end(), [](const Gang& a, const Gang& b) {
        return a.degree_index != b.degree_index ? a.degree_index > b.degree_index
                                                : a.seconds > b.seconds;
    });
}

std::vector<int> place_group(const Topology& topology,
                             const std::vector<double>& busy,
                             int degree,
                             int choice) {
    if (degree == 1 && topology.speeds.empty()) {
        const auto soonest = std::min_element(busy.begin(), busy.end());
        return {static_cast<int>(std::distance(busy.begin(), soonest))};
    }
    return Placer(topology, busy).choose(degree, choice, 0);
}

}  // namespace dcp::plan
