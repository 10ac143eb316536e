#include "core/plan/gang.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dcp::plan {

namespace {

constexpr double kLater = 1e-3;  // of ranks that lose as much, those that are ready later

}  // namespace

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
    spent_.resize(ready.size());
    node_order_.resize(begins_.size() - 1);
    best_.resize(node_order_.size());
    is_stale_.resize(node_order_.size(), true);
    for (std::size_t node = 0; node < node_order_.size(); ++node) {
        sort_node(node);
    }
}

void Placer::clear() {
    std::fill(state_.ready.begin(), state_.ready.end(), 0.0);
    std::iota(state_.soonest.begin(), state_.soonest.end(), 0);
    best_degree_ = 0;
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
    is_stale_[node] = true;
}

double Placer::slowed(std::span<const int> group, double seconds) const {
    double slowest = topology_.speed(group.front());
    for (const int rank : group) {
        slowest = std::min(slowest, topology_.speed(rank));
    }
    return seconds / slowest;
}

void Placer::take(const Window& window, int degree) {
    const auto count = static_cast<std::size_t>(degree);
    const std::span<const int> group = ranks_of(window.node).subspan(window.end - count, count);
    group_.assign(group.begin(), group.end());
}

Placer::Window Placer::best_of(std::size_t node, int degree) {
    const std::span<const int> own = ranks_of(node);
    const auto count = static_cast<std::size_t>(degree);
    Window best{.charge = std::numeric_limits<double>::infinity(),
                .room = own.size(),
                .node = node,
                .end = count};
    double sum = 0;  // of the ready times in the window
    for (std::size_t i = 0; i + 1 < std::min(count, own.size()); ++i) {
        sum += ready(own[i]);
    }
    for (std::size_t end = count; end <= own.size(); ++end) {
        const double start = ready(own[end - 1]);
        if (start > best.charge) {
            break;  // later ones start later still
        }
        sum += start;
        const double charge = start + 2 * std::max(0.0, start * degree - sum);
        sum -= ready(own[end - count]);
        if (charge <= best.charge) {  // of equals the last: it leaves least of the node
            best = {.charge = charge, .room = own.size() - end, .node = node, .end = end};
        }
    }
    return best;
}

void Placer::best_inside_a_node(int degree) {
    if (degree != best_degree_) {
        is_stale_.assign(is_stale_.size(), true);
        best_degree_ = degree;
    }
    std::size_t chosen = 0;
    for (std::size_t node = 0; node < best_.size(); ++node) {
        if (is_stale_[node]) {
            best_[node] = best_of(node, degree);
            is_stale_[node] = false;
        }
        if (best_[node] < best_[chosen]) {
            chosen = node;
        }
    }
    take(best_[chosen], degree);
}

// Keeps the best `choice` + 1 windows, best first, and takes the last of them.
void Placer::inside_a_node(int degree, int choice, double seconds) {
    const auto count = static_cast<std::size_t>(degree);
    std::size_t num_windows = 0;
    for (std::size_t node = 0; node + 1 < begins_.size(); ++node) {
        const std::size_t size = begins_[node + 1] - begins_[node];
        num_windows += size < count ? 0 : size - count + 1;
    }
    // Some node has as many ranks as an allowed degree that is no more than a node's.
    const std::size_t most =
        static_cast<std::size_t>(choice) % std::max<std::size_t>(1, num_windows) + 1;
    windows_.resize(std::max(windows_.size(), most));
    const bool is_even = topology_.speeds.empty();
    std::size_t kept = 0;
    double limit = std::numeric_limits<double>::infinity();  // what is dearer is not kept
    for (std::size_t node = 0; node + 1 < begins_.size(); ++node) {
        const std::span<const int> own = ranks_of(node);
        if (own.size() < count || ready(own[count - 1]) > limit) {
            continue;
        }
        double sum = 0;  // of the ready times in the window
        for (std::size_t i = 0; i + 1 < count; ++i) {
            sum += ready(own[i]);
        }
        for (std::size_t end = count; end <= own.size(); ++end) {
            const double start = ready(own[end - 1]);
            if (start > limit) {
                break;  // later ones start later still
            }
            sum += start;
            double charge = start + 2 * std::max(0.0, start * degree - sum);
            sum -= ready(own[end - count]);
            if (!is_even) {
                charge += slowed(own.subspan(end - count, count), seconds);
            }
            const Window found{
                .charge = charge, .room = own.size() - end, .node = node, .end = end};
            if (kept == most && !(found < windows_[kept - 1])) {
                continue;
            }
            kept += kept < most ? 1 : 0;
            std::size_t place = kept - 1;
            for (; place > 0 && found < windows_[place - 1]; --place) {
                windows_[place] = windows_[place - 1];
            }
            windows_[place] = found;
            if (kept == most) {
                limit = windows_[kept - 1].charge;
            }
        }
    }
    take(windows_[kept - 1], degree);
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

double Placer::spent(int world_rank) {
    Spent& known = spent_[static_cast<std::size_t>(world_rank)];
    if (const double since = ready(world_rank); since != known.ready) {
        known = {.ready = since, .seconds = since + ending_.lost(ending_.seconds - since)};
    }
    return known.seconds;
}

bool Placer::fit_inside_a_node(int degree, double seconds) {
    const auto count = static_cast<std::size_t>(degree);
    const bool is_even = topology_.speeds.empty();
    double alike = -1;  // when the ranks of the last node were ready that were so together
    Window best{.charge = std::numeric_limits<double>::infinity(), .room = 0, .node = 0, .end = 0};
    for (std::size_t node = 0; node + 1 < begins_.size(); ++node) {
        const std::span<const int> own = ranks_of(node);
        if (own.size() < count) {
            continue;
        }
        std::size_t end = count;
        if (const double first = ready(own.front()); is_even && first == ready(own.back())) {
            if (first == alike) {
                continue;  // no better than that node
            }
            alike = first;
            end = own.size();  // whichever ranks
        }
        double sum = 0;
        for (std::size_t i = end - count; i + 1 < end; ++i) {
            sum += spent(own[i]);
        }
        for (; end <= own.size(); ++end) {
            const double start = ready(own[end - 1]);
            const double taken =
                is_even ? seconds : slowed(own.subspan(end - count, count), seconds);
            const double room = ending_.seconds - start - taken;
            if (is_even && room < 0) {
                break;  // later ones start later still
            }
            sum += spent(own[end - 1]);
            const double spent_here = sum;
            sum -= spent(own[end - count]);
            // What is lost is not asked for where even nothing would be too much.
            if (room < 0 || degree * start - spent_here - kLater * start > best.charge) {
                continue;
            }
            const double charge =
                degree * (start + ending_.lost(room)) - spent_here - kLater * start;
            best = std::min(
                best, Window{.charge = charge, .room = own.size() - end, .node = node, .end = end});
        }
    }
    if (best.end > 0) {
        take(best, degree);
    }
    return best.end > 0;
}

// Nodes that are neighbours in the order in which all of their ranks are ready, all ranks of them
// but of the last.
bool Placer::fit_across_nodes(int degree, double seconds) {
    const auto node_size = static_cast<std::size_t>(topology_.ranks_per_node);
    std::vector<std::size_t> nodes;
    for (std::size_t node = 0; node < node_order_.size(); ++node) {
        const std::span<const int> own = ranks_of(node);
        if (own.size() == node_size &&
            ready(own.back()) + slowed(own, seconds) <= ending_.seconds) {
            nodes.push_back(node);
        }
    }
    std::stable_sort(nodes.begin(), nodes.end(), [&](std::size_t a, std::size_t b) {
        return ready(ranks_of(a).back()) < ready(ranks_of(b).back());
    });
    const auto num_nodes = static_cast<std::size_t>(topology_.nodes_for(degree));
    double least = std::numeric_limits<double>::infinity();
    std::vector<int> group;
    for (std::size_t first = 0; first + num_nodes <= nodes.size(); ++first) {
        group.clear();
        for (std::size_t i = first; i < first + num_nodes; ++i) {
            const std::size_t left = static_cast<std::size_t>(degree) - group.size();
            const std::span<const int> own = ranks_of(nodes[i]).last(std::min(left, node_size));
            group.insert(group.end(), own.begin(), own.end());
        }
        const double start = ready(group.back());
        double charge =
            degree * (start + ending_.lost(ending_.seconds - start - slowed(group, seconds))) -
            kLater * start;
        for (const int rank : group) {
            charge -= spent(rank);
        }
        if (charge < least) {
            least = charge;
            group_ = group;
        }
    }
    return nodes.size() >= num_nodes;
}

void Placer::choose_unsorted(int degree, int choice, double seconds) {
    if (choice == kFitting) {
        const bool is_wide = degree > topology_.ranks_per_node;
        if (is_wide ? fit_across_nodes(degree, seconds) : fit_inside_a_node(degree, seconds)) {
            return;
        }
        choice = 0;
    }
    if (degree > topology_.ranks_per_node) {
        across_nodes(degree, choice);
    } else if (choice == 0 && topology_.speeds.empty()) {
        best_inside_a_node(degree);
    } else {
        inside_a_node(degree, choice, seconds);
    }
}

const std::vector<int>& Placer::choose(int degree, int choice, double seconds) {
    choose_unsorted(degree, choice, seconds);
    std::sort(group_.begin(), group_.end());
    return group_;
}

std::vector<int> Placer::soonest(int degree) {
    if (degree == 1 && topology_.speeds.empty()) {
        const auto first = std::min_element(state_.ready.begin(), state_.ready.end());
        return {static_cast<int>(std::distance(state_.ready.begin(), first))};
    }
    return choose(degree, 0, 0);
}

double Placer::occupy(double seconds) {
    return occupy(group_, seconds);
}

double Placer::place(int degree, int choice, double seconds) {
    choose_unsorted(degree, choice, seconds);
    return occupy(group_, seconds);
}

double Placer::occupy(const std::vector<int>& group, double seconds) {
    double start = 0;
    for (const int rank : group) {
        start = std::max(start, ready(rank));
    }
    const double end =
        start + (topology_.speeds.empty() ? seconds : seconds / topology_.slowest(group));
    for (const int rank : group) {
        state_.ready[static_cast<std::size_t>(rank)] = end;
    }
    int sorted = -1;
    for (const int rank : group) {
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
    Placer placer(topology, busy);
    return choice == 0 ? placer.soonest(degree) : placer.choose(degree, choice, 0);
}

}  // namespace dcp::plan
