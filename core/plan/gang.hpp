// A micro-batch that has no ranks yet, and the choice of ranks for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/cost_model.hpp"
#include "core/plan/topology.hpp"

namespace dcp::plan {

struct Gang {
    std::size_t degree_index = 0;
    std::vector<std::int32_t> sequences = {};
    Load load = {};
    double seconds = 0;                 // on ranks of speed 1
    std::vector<int> world_ranks = {};  // where it must run; empty: not decided
};

// Wide before narrow, long before short; gangs that are alike stay in their order.
void sort_wide_first(std::vector<Gang>& gangs);

// When all should be done, and what is lost of a room of time before that: micro-batches come in
// whole numbers.
struct Ending {
    double seconds = 0;
    double full_seconds = 1;   // of a full micro-batch on one rank
    double fixed_seconds = 0;  // of any

    // What remains behind full ones; a larger rest takes one more, for its fixed cost.
    double lost(double room) const {
        const double full_ones =
            static_cast<double>(static_cast<std::int64_t>(room / full_seconds));
        return std::min(room - full_ones * full_seconds, fixed_seconds);
    }
    bool operator==(const Ending&) const = default;
};

// Places one micro-batch after the other on ranks that obey the node rule: those that can finish it
// soonest and wait least for each other, or those that lose least of the time until an ending.
class Placer {
public:
    // As a choice: the ranks that lose least, so gangs stack up on few of them; ranks that are
    // ready soonest where no ranks finish in time.
    static constexpr int kFitting = 6;

    explicit Placer(const Topology& topology);  // every rank is ready at 0
    Placer(const Topology& topology, const std::vector<double>& ready);

    void clear();  // every rank is ready at 0 again
    void set_ending(const Ending& ending) {
        ending_ = ending;
        spent_.assign(spent_.size(), {});
    }
    const Ending& ending() const { return ending_; }

    // Which ranks (sorted), when a micro-batch takes `seconds` on ranks of speed 1. Inside a node
    // there are several such groups, and nodes are a choice too: a `choice` below kFitting takes
    // one that is not the best, and counts from the best again when there are no more.
    const std::vector<int>& choose(int degree, int choice, double seconds);
    // The best such group for a micro-batch of unknown length; a single rank is one that is ready
    // soonest, the first of several.
    std::vector<int> soonest(int degree);
    // The ranks chosen last do it; the result is when they are done.
    double occupy(double seconds);
    // Both: choose() and occupy(), for those who do not ask which ranks.
    double place(int degree, int choice, double seconds);
    double occupy(const std::vector<int>& group, double seconds);  // these do

    double ready(int world_rank) const {
        return state_.ready[static_cast<std::size_t>(world_rank)];
    }
    const std::vector<double>& ready() const { return state_.ready; }

    struct State {
        std::vector<double> ready;  // of every rank
        std::vector<int> soonest;   // ranks node by node, those of a node by when they are ready
    };
    const State& state() const { return state_; }
    void restore(const State& state) {
        state_ = state;
        best_degree_ = 0;
    }

private:
    struct Window {  // ranks [end - degree, end) of a node, in the order they become ready
        double charge;
        std::size_t room;  // ranks of the node that are ready later
        std::size_t node;
        std::size_t end;
        // Of windows that are as good, the one that leaves least of its node to others: other nodes
        // stay whole for wide gangs.
        bool operator<(const Window& other) const {
            return charge != other.charge ? charge < other.charge
                   : room != other.room   ? room < other.room
                   : node != other.node   ? node < other.node
                                          : end < other.end;
        }
    };

    bool sooner(int a, int b) const { return ready(a) != ready(b) ? ready(a) < ready(b) : a < b; }
    // Ranks of a node, soonest first.
    std::span<int> ranks_of(std::size_t node) {
        return std::span(state_.soonest).subspan(begins_[node], begins_[node + 1] - begins_[node]);
    }
    void sort_node(std::size_t node);
    double slowed(std::span<const int> group, double seconds) const;
    void take(const Window& window, int degree);
    // The best window of a node, where all ranks are equally fast.
    Window best_of(std::size_t node, int degree);
    void best_inside_a_node(int degree);
    void inside_a_node(int degree, int choice, double seconds);
    void choose_unsorted(int degree, int choice, double seconds);
    void across_nodes(int degree, int choice);
    // When a rank is ready, and what it would lose if it then did nothing but single-rank
    // micro-batches: with a gang there, neither counts.
    double spent(int world_rank);
    // False where no ranks finish in time.
    bool fit_inside_a_node(int degree, double seconds);
    bool fit_across_nodes(int degree, double seconds);

    const Topology& topology_;
    State state_;
    Ending ending_;
    std::vector<std::size_t> begins_;  // ranks of node n in state_: [begins_[n], begins_[n + 1])
    std::vector<std::size_t> node_order_;
    std::vector<Window> windows_;
    struct Spent {  // of a rank, while it is ready then
        double ready = -1;
        double seconds = 0;
    };
    std::vector<Spent> spent_;
    std::vector<int> group_;
    // Gangs of one degree are placed one after the other: the best window of every node for the
    // degree asked for last, kept as long as its ranks are ready when they were. 0: none.
    int best_degree_ = 0;
    std::vector<Window> best_;
    std::vector<bool> is_stale_;
};

// One group, when every rank is busy until the given time.
std::vector<int> place_group(const Topology& topology,
                             const std::vector<double>& busy,
                             int degree,
                             int choice);

}  // namespace dcp::plan
