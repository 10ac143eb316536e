#include <algorithm>
#include <limits>
#include <map>

#include "tests/bench/rivals/rivals.hpp"

namespace dcp::bench {

namespace {

using plan::Load;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct AtomicGroup {
    int least_degree = 1;
    std::vector<std::int32_t> sequences;
    Load load;
};

std::vector<AtomicGroup> pack(const RunCosts& costs) {
    std::vector<AtomicGroup> groups;
    std::multimap<std::int64_t, std::size_t> by_room;  // free tokens -> group
    for (const std::int32_t sequence : costs.longest_first()) {
        const std::int64_t tokens = costs.tokens(sequence);
        std::size_t group = groups.size();
        std::int64_t room = 0;
        if (const auto tightest = by_room.lower_bound(tokens); tightest != by_room.end()) {
            room = tightest->first;
            group = tightest->second;
            by_room.erase(tightest);
        } else {
            const int degree = costs.least_degree(tokens);
            groups.push_back({.least_degree = degree, .sequences = {}, .load = {}});
            room = costs.most_tokens(degree);
        }
        groups[group].sequences.push_back(sequence);
        groups[group].load += plan::load_of(tokens);
        by_room.emplace(room - tokens, group);
    }
    return groups;
}

// First fit into phases of all ranks, the longest first.
std::vector<std::vector<AtomicGroup>> split_into_phases(const RunCosts& costs,
                                                        std::vector<AtomicGroup> groups) {
    const auto seconds = [&](const AtomicGroup& group) {
        return costs.seconds(group.least_degree, group.load);
    };
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const auto& a, const auto& b) { return seconds(a) > seconds(b); });
    std::vector<std::vector<AtomicGroup>> phases;
    std::vector<int> free;
    for (AtomicGroup& group : groups) {
        std::size_t phase = 0;
        while (phase < phases.size() && free[phase] < group.least_degree) {
            ++phase;
        }
        if (phase == phases.size()) {
            phases.emplace_back();
            free.push_back(costs.problem().topology.ranks);
        }
        free[phase] -= group.least_degree;
        phases[phase].push_back(std::move(group));
    }
    return phases;
}

// f(k, n): the least makespan of the first k groups on n ranks,
//   f(k, n) = min over d >= least_degree(k) of max(f(k - 1, n - d), seconds(k, d)).
// Returns the degree of every group.
std::vector<int> best_degrees(const RunCosts& costs,
                              const std::vector<AtomicGroup>& groups,
                              const std::vector<int>& domain) {
    const auto ranks = static_cast<std::size_t>(costs.problem().topology.ranks);
    std::vector<double> makespans(ranks + 1, 0.0);
    std::vector<std::vector<int>> chosen;
    for (const AtomicGroup& group : groups) {
        std::vector<double> next(ranks + 1, kNever);
        std::vector<int> degrees(ranks + 1, 0);
        for (const int degree : domain) {
            if (degree < group.least_degree || costs.most_tokens(degree) < group.load.tokens) {
                continue;
            }
            const double seconds = costs.seconds(degree, group.load);
            for (auto n = static_cast<std::size_t>(degree); n <= ranks; ++n) {
                const double makespan =
                    std::max(makespans[n - static_cast<std::size_t>(degree)], seconds);
                if (makespan < next[n]) {
                    next[n] = makespan;
                    degrees[n] = degree;
                }
            }
        }
        makespans = std::move(next);
        chosen.push_back(std::move(degrees));
    }
    std::vector<int> degrees(groups.size());
    std::size_t left = ranks;
    for (std::size_t k = groups.size(); k-- > 0;) {
        degrees[k] = chosen[k][left];
        left -= static_cast<std::size_t>(degrees[k]);
    }
    return degrees;
}

// Wide first. The programme does not know of nodes: a group that finds no place gets fewer ranks,
// and one that finds none even so comes after the others.
void place_all(const RunCosts& costs,
               const std::vector<AtomicGroup>& groups,
               const std::vector<int>& degrees,
               Phases& phases) {
    std::vector<std::size_t> order(groups.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return degrees[a] > degrees[b]; });
    const auto place = [&](std::size_t group) {
        for (auto degree = costs.degrees().rbegin(); degree != costs.degrees().rend(); ++degree) {
            if (*degree <= degrees[group] && *degree >= groups[group].least_degree &&
                costs.most_tokens(*degree) >= groups[group].load.tokens &&
                phases.place(*degree, groups[group].sequences)) {
                return true;
            }
        }
        return false;
    };
    std::vector<std::size_t> later;
    for (const std::size_t group : order) {
        if (!place(group)) {
            later.push_back(group);
        }
    }
    for (const std::size_t group : later) {
        if (!place(group)) {
            phases.begin();
            place(group);
        }
    }
}

PhasedPlan planned(const RunCosts& costs,
                   const std::vector<std::vector<AtomicGroup>>& rounds,
                   const std::vector<int>& domain) {
    Phases phases(costs);
    for (std::size_t round = 0; round < rounds.size(); ++round) {
        if (round > 0) {
            phases.begin();
        }
        place_all(costs, rounds[round], best_degrees(costs, rounds[round], domain), phases);
    }
    return std::move(phases).finish();
}

}  // namespace

PhasedPlan FcpPlanner::phased(const plan::Problem& problem) const {
    const RunCosts costs(problem);
    const auto rounds = split_into_phases(costs, pack(costs));
    PhasedPlan best = planned(costs, rounds, costs.degrees());
    // Degrees that nest in nodes always find their place: a second try where others do not. The
    // degrees that packing chose stay, so every group still has one.
    std::vector<int> nested;
    for (const int degree : costs.degrees()) {
        const int node = problem.topology.ranks_per_node;
        bool is_needed = node % degree == 0 || degree % node == 0;
        for (const auto& round : rounds) {
            for (const AtomicGroup& group : round) {
                is_needed = is_needed || group.least_degree == degree;
            }
        }
        if (is_needed) {
            nested.push_back(degree);
        }
    }
    PhasedPlan other = planned(costs, rounds, nested);
    return other.plan.makespan_seconds < best.plan.makespan_seconds ? other : best;
}

}  // namespace dcp::bench
