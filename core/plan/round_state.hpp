// One round in the making: micro-batches on groups of ranks that no other of them uses, and how
// long the round lasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/plan/micro_costs.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

// Seconds of micro-batches where all steps of a round may have to recompute alike.
class RoundCosts {
public:
    explicit RoundCosts(const Problem& problem);

    bool is_one_depth() const { return !levels_.empty(); }
    const MicroCosts& micro() const { return micro_; }
    std::size_t num_depths() const { return levels_.size(); }
    // Recomputing so many layers, on ranks of speed 1; infinity where they cannot hold the load.
    double seconds_at(std::size_t degree_index, std::size_t depth, const Load& load) const;

private:
    MicroCosts micro_;
    // By depth and degree; empty where every step has a depth of its own.
    std::vector<std::vector<std::vector<MicroCosts::Level>>> levels_;
};

struct RoundGroup {
    std::size_t degree_index = 0;
    std::vector<int> world_ranks;  // sorted
    std::vector<std::int32_t> sequences = {};
    Load load = {};
    double slowdown = 1;  // 1 / speed of its slowest rank
};

// What a round would be with other loads.
struct GroupChange {
    std::size_t group = 0;  // the number of groups: a new one
    std::size_t degree_index = 0;
    Load load = {};  // no tokens: the group is gone
    double slowdown = 1;
};

struct RoundWorth {
    double seconds = 0;  // of the longest micro-batch; infinity: something does not fit
    double spread = 0;   // root of the mean square, over ranks, of the seconds they compute
    std::size_t depth = 0;
};

class RoundState {
public:
    RoundState(const Problem& problem, const RoundCosts& costs);

    const std::vector<RoundGroup>& groups() const { return groups_; }
    const RoundWorth& worth() const { return worth_; }
    int free_ranks() const { return free_ranks_; }
    bool is_free(int world_rank) const { return !taken_[static_cast<std::size_t>(world_rank)]; }
    std::size_t longest_group() const;  // not for an empty round

    RoundWorth with(std::span<const GroupChange> changes) const;

    void add(std::size_t group, std::int32_t sequence, const Load& load);
    void take(std::size_t group, std::size_t position, const Load& load);
    void open(RoundGroup group);
    RoundGroup close(std::size_t group);  // the last group takes its place
    // After any of those: what the round is worth now.
    void weigh() { worth_ = with({}); }

    // Free ranks (sorted) that can make a group of this degree; nothing where there are none. Nodes
    // with just enough free ranks come first; of the ranks of a node the fastest.
    std::optional<std::vector<int>> room_for(int degree) const;

private:
    double seconds_of(const GroupChange& group) const;
    std::size_t least_depth(std::span<const GroupChange> changes) const;
    RoundWorth alike(std::span<const GroupChange> changes) const;

    const Problem* problem_;
    const RoundCosts* costs_;
    std::vector<RoundGroup> groups_;
    std::vector<double> seconds_;  // of every group, where each has its own depth
    std::vector<bool> taken_;      // of every rank
    int free_ranks_;
    RoundWorth worth_;
};

// Steps in rounds (fillers left out) as states.
std::vector<RoundState> round_states(const Problem& problem,
                                     const RoundCosts& costs,
                                     const std::vector<std::vector<Step>>& rounds);

// Their steps, round by round. Where rounds recompute alike, with the depth of the round.
std::vector<std::vector<Step>> round_steps(const Problem& problem,
                                           const RoundCosts& costs,
                                           const std::vector<RoundState>& rounds);

double total_seconds(const std::vector<RoundState>& rounds);

}  // namespace dcp::plan
