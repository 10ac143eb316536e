// The bucket baseline. A bucket is a length class: up to 1, 2, 4, 8, ... tokens.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "core/plan/fixed_degree.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

constexpr std::size_t kNumClasses = 64;  // by powers of two: every length has one

std::size_t class_of(std::int64_t tokens) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(tokens - 1)));
}

// What a micro-batch may cost: as much as the longest sequence of the run does alone (batches of
// all classes then cost alike), but no more than an equal share of this batch for every group.
double target_seconds(const Problem& problem,
                      int degree,
                      int recompute_layers,
                      std::size_t num_groups) {
    double work = 0;  // all seconds but the fixed ones
    for (const Sequence& sequence : problem.sequences) {
        const StepCost alone = cost_of(problem, load_of(sequence), degree, recompute_layers);
        work += alone.seconds() - alone.fixed_seconds;
    }
    const StepCost longest =
        cost_of(problem, load_like(problem, problem.longest()), degree, recompute_layers);
    return std::min(longest.seconds(),
                    longest.fixed_seconds + work / static_cast<double>(num_groups));
}

struct Limits {
    int degree;
    int recompute_layers;
    double seconds;
};

// Most sequences of one class in a micro-batch, each counted as if it were as long as its class
// (and the run) allows: a bucket has one batch size, whatever comes.
std::size_t batch_size(const Problem& problem, std::int64_t class_tokens, const Limits& limits) {
    const Load one = load_like(problem, class_tokens);
    const auto is_small_enough = [&](std::size_t count) {
        const Load load{one.tokens * static_cast<std::int64_t>(count),
                        one.squared_tokens * static_cast<double>(count)};
        const StepCost cost = cost_of(problem, load, limits.degree, limits.recompute_layers);
        return cost.peak_bytes <= problem.memory_budget_bytes && cost.seconds() <= limits.seconds;
    };
    std::size_t size = 1;
    std::size_t too_many = problem.sequences.size() + 1;
    while (too_many - size > 1) {
        const std::size_t middle = size + (too_many - size) / 2;
        (is_small_enough(middle) ? size : too_many) = middle;
    }
    return size;
}

using MicroBatch = std::vector<std::int32_t>;

// Sequences wait in their class, in the order of the batch, until there are enough of them; what is
// left at the end makes smaller micro-batches, long classes first.
std::vector<MicroBatch> micro_batches(const Problem& problem, const Limits& limits) {
    std::vector<MicroBatch> finished;
    std::vector<MicroBatch> waiting(kNumClasses);
    std::vector<std::size_t> sizes(kNumClasses, 0);
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        const std::size_t bucket = class_of(problem.sequences[i].tokens);
        if (sizes[bucket] == 0) {
            const std::int64_t longest = std::min(std::int64_t{1} << bucket, problem.longest());
            sizes[bucket] = batch_size(problem, longest, limits);
        }
        waiting[bucket].push_back(static_cast<std::int32_t>(i));
        if (waiting[bucket].size() == sizes[bucket]) {
            finished.push_back(std::exchange(waiting[bucket], {}));
        }
    }
    for (std::size_t bucket = kNumClasses; bucket-- > 0;) {
        if (!waiting[bucket].empty()) {
            finished.push_back(std::move(waiting[bucket]));
        }
    }
    return finished;
}

}  // namespace

Plan BucketPlanner::plan(const Problem& problem) const {
    check_problem(problem);
    require_all_fit(problem);
    int depth = problem.max_recompute_layers();
    int degree = fixed_degree(problem, depth);
    if (degree == 0) {  // keeping everything is the leaner of the two
        depth = 0;
        degree = fixed_degree(problem, depth);
    }
    const std::vector<std::vector<int>> groups = equal_groups(problem.topology, degree);
    std::vector<Step> steps;
    const Limits limits{.degree = degree,
                        .recompute_layers = depth,
                        .seconds = target_seconds(problem, degree, depth, groups.size())};
    for (MicroBatch& batch : micro_batches(problem, limits)) {
        steps.push_back({.world_ranks = groups[steps.size() % groups.size()],
                         .sequences = std::move(batch),
                         .strategy = preferred_strategy(degree, problem.heads),
                         .recompute_layers = depth});
    }
    return predicted(problem, std::move(steps));
}

}  // namespace dcp::plan
