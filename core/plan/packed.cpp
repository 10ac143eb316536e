// The packing baseline: best fit decreasing by tokens, then longest processing time first. The
// token budget is not what memory holds (a batch that fits into one pack would leave all groups but
// one idle) but the least that needs no more packs a group than memory forces.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/plan/fixed_degree.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

struct Pack {
    std::vector<std::int32_t> sequences;
    Load load;
    double seconds = 0;
};

// Indices by falling length, ties by index.
std::vector<std::int32_t> longest_first(const Problem& problem) {
    std::vector<std::int32_t> order(problem.sequences.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        const std::int64_t tokens_a = problem.sequences[static_cast<std::size_t>(a)].tokens;
        const std::int64_t tokens_b = problem.sequences[static_cast<std::size_t>(b)].tokens;
        return tokens_a != tokens_b ? tokens_a > tokens_b : a < b;
    });
    return order;
}

// Best fit: which pack each sequence of the order joins, and how many packs there are.
std::size_t pack_of_each(const Problem& problem,
                         const std::vector<std::int32_t>& order,
                         std::int64_t budget_tokens,
                         std::vector<std::size_t>& pack_of) {
    std::size_t num_packs = 0;
    std::vector<std::pair<std::int64_t, std::size_t>> by_room;  // (free tokens, pack), rising
    const auto by_tokens = [](const auto& entry, std::int64_t tokens) {
        return entry.first < tokens;
    };
    pack_of.clear();
    for (const std::int32_t sequence : order) {
        const std::int64_t tokens = problem.sequences[static_cast<std::size_t>(sequence)].tokens;
        std::pair<std::int64_t, std::size_t> chosen{budget_tokens, num_packs};
        const auto tightest = std::lower_bound(by_room.begin(), by_room.end(), tokens, by_tokens);
        if (tightest != by_room.end()) {
            chosen = *tightest;
            by_room.erase(tightest);
        } else {
            ++num_packs;
        }
        chosen.first -= tokens;
        by_room.insert(
            std::lower_bound(by_room.begin(), by_room.end(), chosen.first + 1, by_tokens), chosen);
        pack_of.push_back(chosen.second);
    }
    return num_packs;
}

std::vector<Pack> packs(const Problem& problem,
                        const std::vector<std::int32_t>& order,
                        std::int64_t budget_tokens) {
    std::vector<std::size_t> pack_of;
    std::vector<Pack> made(pack_of_each(problem, order, budget_tokens, pack_of));
    for (std::size_t i = 0; i < order.size(); ++i) {
        Pack& pack = made[pack_of[i]];
        pack.sequences.push_back(order[i]);
        pack.load += load_of(problem.sequences[static_cast<std::size_t>(order[i])]);
    }
    return made;
}

// Least value in (low, high] that is accepted, found by halving; `high` is accepted.
template <class Accept>
std::int64_t least_accepted(std::int64_t low, std::int64_t high, Accept accept) {
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (accept(middle) ? high : low) = middle;
    }
    return high;
}

std::vector<Pack> level_packs(const Problem& problem,
                              int degree,
                              int recompute_layers,
                              std::size_t num_groups) {
    std::int64_t total = 0;
    for (const Sequence& sequence : problem.sequences) {
        total += sequence.tokens;
    }
    const std::int64_t too_many = least_accepted(0, total + 1, [&](std::int64_t tokens) {
        return tokens > total || !fits(problem, Load{tokens, 0}, degree, recompute_layers);
    });
    const std::int64_t most = too_many - 1;  // what memory holds
    const std::vector<std::int32_t> order = longest_first(problem);
    std::vector<std::size_t> pack_of;
    const auto count = [&](std::int64_t tokens) {
        return pack_of_each(problem, order, tokens, pack_of);
    };
    if (order.empty()) {
        return {};
    }
    const std::size_t wanted = (count(most) + num_groups - 1) / num_groups * num_groups;
    // Less than the mean of so many packs does not do.
    const std::int64_t too_few = (total - 1) / static_cast<std::int64_t>(wanted);
    return packs(problem, order,
                 least_accepted(std::min(too_few, most - 1), most,
                                [&](std::int64_t tokens) { return count(tokens) <= wanted; }));
}

Plan packed(const Problem& problem, int degree, int recompute_layers) {
    const Strategy strategy = preferred_strategy(degree, problem.heads);
    const std::vector<std::vector<int>> groups = equal_groups(problem.topology, degree);
    std::vector<Pack> made = level_packs(problem, degree, recompute_layers, groups.size());
    for (Pack& pack : made) {
        pack.seconds = cost_of(problem, pack.load, degree, recompute_layers).seconds();
    }
    std::sort(made.begin(), made.end(), [](const Pack& a, const Pack& b) {
        return a.seconds != b.seconds ? a.seconds > b.seconds
                                      : a.sequences.front() < b.sequences.front();
    });
    std::vector<double> busy(groups.size(), 0.0);
    std::vector<Step> steps;
    for (Pack& pack : made) {
        const auto least = std::min_element(busy.begin(), busy.end());
        const auto group = static_cast<std::size_t>(std::distance(busy.begin(), least));
        steps.push_back({.world_ranks = groups[group],
                         .sequences = std::move(pack.sequences),
                         .strategy = strategy,
                         .recompute_layers = recompute_layers});
        *least += cost_of(problem, steps.back()).seconds();
    }
    return predicted(problem, std::move(steps));
}

}  // namespace

Plan PackedPlanner::plan(const Problem& problem) const {
    check_problem(problem);
    require_all_fit(problem);
    Plan best;
    for (const int depth : {0, problem.max_recompute_layers()}) {
        const int degree = fixed_degree(problem, depth);
        if (degree == 0) {
            continue;
        }
        Plan candidate = packed(problem, degree, depth);
        if (best.steps.empty() || candidate.makespan_seconds < best.makespan_seconds) {
            best = std::move(candidate);
        }
    }
    return best;
}

}  // namespace dcp::plan
