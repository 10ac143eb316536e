#include "core/plan/round_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace dcp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Free ranks of every node, the fastest first.
std::vector<std::vector<int>> free_by_node(const Topology& topology,
                                           const std::vector<bool>& taken) {
    std::vector<std::vector<int>> nodes(static_cast<std::size_t>(topology.num_nodes()));
    for (int rank = 0; rank < topology.ranks; ++rank) {
        if (!taken[static_cast<std::size_t>(rank)]) {
            nodes[static_cast<std::size_t>(topology.node_of(rank))].push_back(rank);
        }
    }
    if (!topology.speeds.empty()) {
        for (std::vector<int>& node : nodes) {
            std::stable_sort(node.begin(), node.end(),
                             [&](int a, int b) { return topology.speed(a) > topology.speed(b); });
        }
    }
    return nodes;
}

}  // namespace

RoundCosts::RoundCosts(const Problem& problem) : micro_(problem) {
    if (problem.step_mode != StepMode::kRoundsOneDepth) {
        return;
    }
    for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
        std::vector<std::vector<MicroCosts::Level>> degrees;
        degrees.reserve(problem.degrees.size());
        for (const int degree : problem.degrees) {
            degrees.push_back(levels_at(problem, degree, depth, 0));
        }
        levels_.push_back(std::move(degrees));
    }
}

double RoundCosts::seconds_at(std::size_t degree_index, std::size_t depth, const Load& load) const {
    for (const MicroCosts::Level& level : levels_[depth][degree_index]) {
        if (load.tokens <= level.most_tokens) {
            return level.fixed_seconds + level.token_seconds * static_cast<double>(load.tokens) +
                   level.squared_seconds * load.squared_tokens;
        }
    }
    return kNever;
}

RoundState::RoundState(const Problem& problem, const RoundCosts& costs)
    : problem_(&problem),
      costs_(&costs),
      taken_(static_cast<std::size_t>(problem.topology.ranks), false),
      free_ranks_(problem.topology.ranks) {}

std::size_t RoundState::longest_group() const {
    std::size_t longest = 0;
    double most = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const RoundGroup& group = groups_[i];
        const double seconds =
            costs_->is_one_depth()
                ? costs_->seconds_at(group.degree_index, worth_.depth, group.load) * group.slowdown
                : seconds_[i];
        if (seconds > most) {
            most = seconds;
            longest = i;
        }
    }
    return longest;
}

double RoundState::seconds_of(const GroupChange& group) const {
    return group.load.tokens == 0
               ? 0
               : costs_->micro().seconds(group.degree_index, group.load) * group.slowdown;
}

RoundWorth RoundState::with(std::span<const GroupChange> changes) const {
    if (costs_->is_one_depth()) {
        return alike(changes);
    }
    RoundWorth worth;
    double squares = 0;
    const auto count = [&](double seconds, std::size_t degree_index) {
        worth.seconds = std::max(worth.seconds, seconds);
        squares += seconds * seconds * costs_->micro().degree(degree_index);
    };
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const bool changes_here = std::any_of(changes.begin(), changes.end(),
                                              [&](const auto& one) { return one.group == i; });
        if (!changes_here) {
            count(seconds_[i], groups_[i].degree_index);
        }
    }
    for (const GroupChange& change : changes) {
        count(seconds_of(change), change.degree_index);
    }
    worth.spread = std::sqrt(squares / static_cast<double>(taken_.size()));
    return worth;
}

// No group fits with less recomputation.
std::size_t RoundState::least_depth(std::span<const GroupChange> changes) const {
    std::size_t least = 0;
    const auto need = [&](std::size_t degree_index, std::int64_t tokens) {
        const MicroCosts::Level* level = costs_->micro().level(degree_index, tokens);
        least = std::max(least, level == nullptr ? costs_->num_depths()
                                                 : static_cast<std::size_t>(level->depth));
    };
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const bool changes_here = std::any_of(changes.begin(), changes.end(),
                                              [&](const auto& one) { return one.group == i; });
        if (!changes_here) {
            need(groups_[i].degree_index, groups_[i].load.tokens);
        }
    }
    for (const GroupChange& change : changes) {
        need(change.degree_index, change.load.tokens);
    }
    return least;
}

// At the least depth that all groups fit in. What fits at one depth may not at the next, where the
// first recomputed layer needs room to run again.
RoundWorth RoundState::alike(std::span<const GroupChange> changes) const {
    const auto at = [&](std::size_t depth) {
        RoundWorth worth{.depth = depth};
        double squares = 0;
        const auto count = [&](std::size_t degree_index, const Load& load, double slowdown) {
            if (load.tokens == 0) {
                return;
            }
            const double seconds = costs_->seconds_at(degree_index, depth, load) * slowdown;
            worth.seconds = std::max(worth.seconds, seconds);
            squares += seconds * seconds * costs_->micro().degree(degree_index);
        };
        for (std::size_t i = 0; i < groups_.size() && worth.seconds < kNever; ++i) {
            const bool changes_here = std::any_of(changes.begin(), changes.end(),
                                                  [&](const auto& one) { return one.group == i; });
            if (!changes_here) {
                count(groups_[i].degree_index, groups_[i].load, groups_[i].slowdown);
            }
        }
        for (const GroupChange& change : changes) {
            count(change.degree_index, change.load, change.slowdown);
        }
        worth.spread = std::sqrt(squares / static_cast<double>(taken_.size()));
        return worth;
    };
    for (std::size_t depth = least_depth(changes); depth < costs_->num_depths(); ++depth) {
        const RoundWorth worth = at(depth);
        if (worth.seconds < kNever) {
            return worth;
        }
    }
    return {.seconds = kNever, .spread = kNever};
}

void RoundState::add(std::size_t group, std::int32_t sequence, const Load& load) {
    groups_[group].sequences.push_back(sequence);
    groups_[group].load += load;
    seconds_[group] = seconds_of({.degree_index = groups_[group].degree_index,
                                  .load = groups_[group].load,
                                  .slowdown = groups_[group].slowdown});
}

void RoundState::take(std::size_t group, std::size_t position, const Load& load) {
    RoundGroup& from = groups_[group];
    from.sequences[position] = from.sequences.back();
    from.sequences.pop_back();
    from.load = {from.load.tokens - load.tokens, from.load.squared_tokens - load.squared_tokens};
    seconds_[group] = seconds_of(
        {.degree_index = from.degree_index, .load = from.load, .slowdown = from.slowdown});
}

void RoundState::open(RoundGroup group) {
    group.slowdown = 1 / problem_->topology.slowest(group.world_ranks);
    for (const int rank : group.world_ranks) {
        taken_[static_cast<std::size_t>(rank)] = true;
    }
    free_ranks_ -= static_cast<int>(group.world_ranks.size());
    seconds_.push_back(seconds_of(
        {.degree_index = group.degree_index, .load = group.load, .slowdown = group.slowdown}));
    groups_.push_back(std::move(group));
}

RoundGroup RoundState::close(std::size_t group) {
    RoundGroup closed = std::move(groups_[group]);
    for (const int rank : closed.world_ranks) {
        taken_[static_cast<std::size_t>(rank)] = false;
    }
    free_ranks_ += static_cast<int>(closed.world_ranks.size());
    if (group + 1 != groups_.size()) {
        groups_[group] = std::move(groups_.back());
        seconds_[group] = seconds_.back();
    }
    groups_.pop_back();
    seconds_.pop_back();
    return closed;
}

std::optional<std::vector<int>> RoundState::room_for(int degree) const {
    const Topology& topology = problem_->topology;
    if (degree > free_ranks_) {
        return std::nullopt;
    }
    const std::vector<std::vector<int>> nodes = free_by_node(topology, taken_);
    const auto per_node = static_cast<std::size_t>(topology.ranks_per_node);
    auto full = static_cast<std::size_t>(topology.nodes_for(degree) - 1);
    const std::size_t rest = static_cast<std::size_t>(degree) - full * per_node;
    std::vector<int> group;
    std::vector<bool> is_used(nodes.size(), false);
    for (std::size_t node = 0; node < nodes.size() && full > 0; ++node) {
        if (nodes[node].size() == per_node) {
            group.insert(group.end(), nodes[node].begin(), nodes[node].end());
            is_used[node] = true;
            --full;
        }
    }
    std::size_t best = nodes.size();
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        if (is_used[node] || nodes[node].size() < rest) {
            continue;
        }
        const auto slowest = [&](std::size_t index) {
            return topology.speed(nodes[index][rest - 1]);
        };
        if (best == nodes.size() || slowest(node) > slowest(best) ||
            (slowest(node) == slowest(best) && nodes[node].size() < nodes[best].size())) {
            best = node;
        }
    }
    if (full > 0 || best == nodes.size()) {
        return std::nullopt;
    }
    group.insert(group.end(), nodes[best].begin(),
                 nodes[best].begin() + static_cast<std::ptrdiff_t>(rest));
    std::sort(group.begin(), group.end());
    return group;
}

std::vector<RoundState> round_states(const Problem& problem,
                                     const RoundCosts& costs,
                                     const std::vector<std::vector<Step>>& rounds) {
    std::vector<RoundState> states;
    for (const std::vector<Step>& steps : rounds) {
        RoundState state(problem, costs);
        for (const Step& step : steps) {
            const auto index =
                std::lower_bound(problem.degrees.begin(), problem.degrees.end(), step.degree()) -
                problem.degrees.begin();
            state.open({.degree_index = static_cast<std::size_t>(index),
                        .world_ranks = step.world_ranks,
                        .sequences = step.sequences,
                        .load = load_of(problem, step.sequences)});
        }
        state.weigh();
        states.push_back(std::move(state));
    }
    return states;
}

std::vector<std::vector<Step>> round_steps(const Problem& problem,
                                           const RoundCosts& costs,
                                           const std::vector<RoundState>& rounds) {
    std::vector<std::vector<Step>> all;
    for (const RoundState& round : rounds) {
        std::vector<Step> steps;
        for (const RoundGroup& group : round.groups()) {
            const int depth =
                costs.is_one_depth()
                    ? static_cast<int>(round.worth().depth)
                    : costs.micro().level(group.degree_index, group.load.tokens)->depth;
            steps.push_back({.world_ranks = group.world_ranks,
                             .sequences = group.sequences,
                             .strategy = preferred_strategy(
                                 static_cast<int>(group.world_ranks.size()), problem.heads),
                             .recompute_layers = depth});
        }
        if (!steps.empty()) {
            all.push_back(std::move(steps));
        }
    }
    return all;
}

double total_seconds(const std::vector<RoundState>& rounds) {
    double seconds = 0;
    for (const RoundState& round : rounds) {
        seconds += round.worth().seconds;
    }
    return seconds;
}

}  // namespace dcp::plan
