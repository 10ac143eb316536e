#include "core/sim/fixed_groups.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/errors.hpp"

namespace dcp::sim {

namespace {

using plan::Load;
using plan::Problem;

constexpr std::size_t kMostDivisions = 4000;

// Degrees of the groups, wide first; they add up to the number of ranks.
using Division = std::vector<int>;

// Wide groups come as 0, 1, 2, 3, 4, 6, 8, 12, ... of a degree, the narrowest take the rest.
void divide(const std::vector<int>& degrees,
            std::size_t next,
            int ranks,
            Division& groups,
            std::vector<Division>& found) {
    if (found.size() >= kMostDivisions) {
        return;
    }
    const int degree = degrees[next];
    if (next + 1 == degrees.size()) {
        if (ranks % degree == 0) {
            found.push_back(groups);
            found.back().insert(found.back().end(), static_cast<std::size_t>(ranks / degree),
                                degree);
        }
        return;
    }
    const int most = ranks / degree;
    for (int count = 0; count <= most; ++count) {
        const auto number = static_cast<unsigned>(count);
        if (count > 4 && std::popcount(number) > 2) {
            continue;
        }
        const std::size_t before = groups.size();
        groups.insert(groups.end(), static_cast<std::size_t>(count), degree);
        divide(degrees, next + 1, ranks - count * degree, groups, found);
        groups.resize(before);
    }
}

// The least depth that fits; none fits: nothing.
std::optional<int> depth_of(const Problem& problem, const Load& load, int degree) {
    if (plan::fits(problem, load, degree, 0)) {
        return 0;
    }
    int most = problem.max_recompute_layers();
    if (most == 0 || !plan::fits(problem, load, degree, most)) {
        return std::nullopt;
    }
    int least = 1;
    while (least < most) {
        const int middle = (least + most) / 2;
        if (plan::fits(problem, load, degree, middle)) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    return least;
}

// Infinity where it does not fit.
double seconds_of(const Problem& problem, const Load& load, int degree) {
    const auto depth = depth_of(problem, load, degree);
    return depth ? plan::cost_of(problem, load, degree, *depth).seconds()
                 : std::numeric_limits<double>::infinity();
}

struct MicroBatch {
    std::vector<std::int32_t> sequences;
    Load load;
};

struct Group {
    int degree = 1;
    double finished = 0;  // seconds
    double last = 0;      // of its last micro-batch
    std::vector<MicroBatch> micro_batches;
};

// Where a sequence would go, and when the group would have finished then.
struct Choice {
    Group* group = nullptr;
    bool joins = false;
    double seconds = 0;  // of the micro-batch
    double finished = std::numeric_limits<double>::infinity();
};

void consider(const Problem& problem, const Load& load, Group& group, Choice& best) {
    const double alone = seconds_of(problem, load, group.degree);
    if (group.finished + alone < best.finished) {
        best = {
            .group = &group, .joins = false, .seconds = alone, .finished = group.finished + alone};
    }
    if (group.micro_batches.empty()) {
        return;
    }
    Load joined = group.micro_batches.back().load;
    joined += load;
    const double together = seconds_of(problem, joined, group.degree);
    if (group.finished - group.last + together < best.finished) {
        best = {.group = &group,
                .joins = true,
                .seconds = together,
                .finished = group.finished - group.last + together};
    }
}

void place(std::int32_t sequence, const Load& load, const Choice& choice) {
    Group& group = *choice.group;
    if (!choice.joins) {
        group.micro_batches.emplace_back();
    }
    group.micro_batches.back().sequences.push_back(sequence);
    group.micro_batches.back().load += load;
    group.finished = choice.finished;
    group.last = choice.seconds;
}

// Nothing where some sequence fits no group, or once it is sure to be longer than `limit`.
std::optional<std::vector<Group>> fill(const Problem& problem,
                                       const std::vector<std::int32_t>& order,
                                       const Division& division,
                                       double limit) {
    std::vector<Group> groups;
    for (const int degree : division) {
        groups.push_back({.degree = degree});
    }
    for (const std::int32_t sequence : order) {
        const Load load = plan::load_of(problem.sequences[static_cast<std::size_t>(sequence)]);
        Choice best;
        // Of the groups of one degree only the first to finish matters.
        for (std::size_t begin = 0; begin < groups.size();) {
            std::size_t end = begin;
            std::size_t first = begin;
            for (; end < groups.size() && groups[end].degree == groups[begin].degree; ++end) {
                first = groups[end].finished < groups[first].finished ? end : first;
            }
            consider(problem, load, groups[first], best);
            begin = end;
        }
        if (best.group == nullptr || best.finished >= limit) {
            return std::nullopt;
        }
        place(sequence, load, best);
    }
    return groups;
}

std::vector<plan::Step> steps_of(const Problem& problem, const std::vector<Group>& groups) {
    std::vector<plan::Step> steps;
    int first_rank = 0;
    for (const Group& group : groups) {
        std::vector<int> ranks(static_cast<std::size_t>(group.degree));
        std::iota(ranks.begin(), ranks.end(), first_rank);
        first_rank += group.degree;
        for (const MicroBatch& micro : group.micro_batches) {
            steps.push_back(
                {.world_ranks = ranks,
                 .sequences = micro.sequences,
                 .strategy = plan::preferred_strategy(group.degree, problem.heads),
                 .recompute_layers = depth_of(problem, micro.load, group.degree).value()});
        }
    }
    return steps;
}

}  // namespace

plan::Plan FixedGroupsPlanner::plan(const Problem& problem) const {
    plan::check_problem(problem);
    plan::require_all_fit(problem);
    std::vector<int> degrees;  // wide first
    for (auto degree = problem.degrees.rbegin(); degree != problem.degrees.rend(); ++degree) {
        if (std::has_single_bit(static_cast<unsigned>(*degree))) {
            degrees.push_back(*degree);
        }
    }
    std::vector<std::int32_t> order(problem.sequences.size());
    std::iota(order.begin(), order.end(), 0);
    const auto tokens = [&](std::int32_t sequence) {
        return problem.sequences[static_cast<std::size_t>(sequence)].tokens;
    };
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair(-tokens(a), a) < std::pair(-tokens(b), b);
    });
    std::vector<Division> divisions;
    if (!degrees.empty()) {
        Division groups;
        divide(degrees, 0, problem.topology.ranks, groups, divisions);
    }
    std::optional<std::vector<Group>> best;
    double limit = std::numeric_limits<double>::infinity();
    for (const Division& division : divisions) {
        auto filled = fill(problem, order, division, limit);
        if (filled) {
            limit = std::max_element(
                        filled->begin(), filled->end(),
                        [](const Group& a, const Group& b) { return a.finished < b.finished; })
                        ->finished;
            best = std::move(filled);
        }
    }
    if (!best) {
        throw PlanError(
            "fixed-groups: no division of the ranks into groups of powers of two holds every "
            "sequence; another planner can");
    }
    return plan::predicted(problem, steps_of(problem, *best));
}

}  // namespace dcp::sim
