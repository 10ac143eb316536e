#include "core/plan/paper_parts.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <span>
#include <utility>

#include "core/plan/free_ranks.hpp"

namespace dcp::plan {

namespace {

using Cut = LengthClasses::Cut;
using Weights = LengthClasses::Weights;

struct PaperBatch {
    double seconds = 0;  // on ranks of speed 1
    std::span<const std::int32_t> sequences;
};

// The order in which they are dealt: long before short.
bool is_before(const PaperBatch& a, const PaperBatch& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds
                                  : a.sequences.front() < b.sequences.front();
}

// Sums that are added up in another order may differ in the last bits.
constexpr double kRounded = 1 - 1e-9;

// One group of every degree, then one more wherever a group has most to do, while ranks last.
void count_groups(int free_ranks, std::vector<PaperPart>& parts) {
    for (const PaperPart& part : parts) {
        free_ranks -= part.degree;
    }
    while (true) {
        PaperPart* busiest = nullptr;
        double most = 0;
        for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
            const bool is_useful =
                part->degree <= free_ranks && part->num_groups < part->num_batches;
            if (is_useful && part->work_seconds / part->num_groups > most) {
                most = part->work_seconds / part->num_groups;
                busiest = &*part;
            }
        }
        if (busiest == nullptr) {
            return;
        }
        ++busiest->num_groups;
        free_ranks -= busiest->degree;
    }
}

// Of every group of a part.
std::vector<double> group_speeds(const Topology& topology,
                                 const PaperPart& part,
                                 const std::vector<int>& ranks) {
    const auto degree = static_cast<std::size_t>(part.degree);
    std::vector<double> speeds;
    for (std::size_t begin = 0; begin < ranks.size(); begin += degree) {
        double slowest = topology.speed(ranks[begin]);
        for (const int rank : std::span(ranks).subspan(begin, degree)) {
            slowest = std::min(slowest, topology.speed(rank));
        }
        speeds.push_back(slowest);
    }
    return speeds;
}

// Seconds of ranks of speed 1 that all groups get done in a second at most.
double pace_of(LengthClasses& classes, const PaperPart& part, const std::vector<double>& speeds) {
    double least_share = 1;
    double most_share = 0;
    for (const Cut& cut : part.cuts) {
        const Weights& weights = classes.weights(cut, part.degree_index);
        least_share = std::min(least_share, weights.least_computation);
        most_share = std::max(most_share, weights.most_computation);
    }
    double pace = 0;
    for (const double speed : speeds) {
        const double share = speed < 1 ? least_share : most_share;
        pace += 1 / (1 - share + share / speed);
    }
    return pace;
}

// As predicted() counts, to the last bit.
double longest_seconds(const Problem& problem,
                       LengthClasses& classes,
                       const PaperPart& part,
                       double speed) {
    PaperBatch longest;
    for (const Cut& cut : part.cuts) {
        const Weights& weights = classes.weights(cut, part.degree_index);
        const PaperBatch own{.seconds = weights.seconds[weights.longest],
                             .sequences = classes.micro_batch(cut, weights.longest)};
        if (longest.sequences.empty() || is_before(own, longest)) {
            longest = own;
        }
    }
    const Load load = load_of(problem, {longest.sequences.begin(), longest.sequences.end()});
    StepCost cost = cost_of(problem, load, part.degree, classes.depth(load, part.degree));
    cost.compute_seconds /= speed;
    return cost.seconds();
}

// Micro-batches in their order, each to the group that has least to do, the first of several.
void deal(const Problem& problem,
          LengthClasses& classes,
          const PaperPart& part,
          const std::vector<int>& ranks,
          std::vector<Step>& steps) {
    std::vector<PaperBatch> batches;
    for (const Cut& cut : part.cuts) {
        const std::vector<double>& seconds = classes.weights(cut, part.degree_index).seconds;
        for (std::size_t i = 0; i < seconds.size(); ++i) {
            batches.push_back({seconds[i], classes.micro_batch(cut, i)});
        }
    }
    std::sort(batches.begin(), batches.end(), is_before);
    using Entry = std::pair<double, std::ptrdiff_t>;  // (busy, where its ranks begin)
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> groups;
    for (std::size_t begin = 0; begin < ranks.size();
         begin += static_cast<std::size_t>(part.degree)) {
        groups.emplace(0.0, static_cast<std::ptrdiff_t>(begin));
    }
    for (const PaperBatch& batch : batches) {
        const auto [busy, begin] = groups.top();
        groups.pop();
        groups.emplace(busy + batch.seconds, begin);
        Step step{.world_ranks = {ranks.begin() + begin, ranks.begin() + begin + part.degree},
                  .sequences = {batch.sequences.begin(), batch.sequences.end()},
                  .strategy = preferred_strategy(part.degree, problem.heads)};
        step.recompute_layers = classes.depth(load_of(problem, step.sequences), part.degree);
        steps.push_back(std::move(step));
    }
}

}  // namespace

std::vector<PaperPart> paper_parts(const Problem& problem,
                                   LengthClasses& classes,
                                   const std::vector<LengthClasses::Shape>& shapes) {
    std::vector<std::vector<Cut>> by_degree(classes.degrees().size());
    for (std::size_t c = 0; c < shapes.size(); ++c) {
        by_degree[shapes[c].degree_index].push_back({c, shapes[c].batch_size});
    }
    std::vector<PaperPart> parts;
    int free_ranks = problem.topology.ranks;
    for (std::size_t index = by_degree.size(); index-- > 0;) {
        std::vector<Cut>& own = by_degree[index];
        const int degree = classes.degrees()[index];
        if (own.empty()) {
            continue;
        }
        if (degree > free_ranks) {
            std::copy(own.begin(), own.end(), std::back_inserter(parts.back().cuts));
            continue;
        }
        parts.push_back({.degree_index = index, .degree = degree, .cuts = std::move(own)});
        free_ranks -= degree;
    }
    for (PaperPart& part : parts) {
        for (const Cut& cut : part.cuts) {
            for (const double seconds : classes.weights(cut, part.degree_index).seconds) {
                part.work_seconds += seconds;
                ++part.num_batches;
            }
        }
    }
    count_groups(problem.topology.ranks, parts);
    return parts;
}

// Groups with the same work each, were micro-batches divisible; and the longest micro-batch, which
// is the first of the first group.
double least_seconds(const Problem& problem,
                     LengthClasses& classes,
                     const std::vector<PaperPart>& parts) {
    FreeRanks free(problem.topology);
    double least = 0;
    for (const PaperPart& part : parts) {
        double pace = part.num_groups;
        double first_speed = 1;
        if (!problem.topology.speeds.empty()) {
            const std::vector<double> speeds =
                group_speeds(problem.topology, part, free.take(part.degree, part.num_groups));
            pace = pace_of(classes, part, speeds);
            first_speed = speeds.front();
        }
        least = std::max({least, kRounded * part.work_seconds / pace,
                          longest_seconds(problem, classes, part, first_speed)});
    }
    return least;
}

Plan paper_plan_of(const Problem& problem,
                   LengthClasses& classes,
                   const std::vector<PaperPart>& parts) {
    FreeRanks free(problem.topology);
    std::vector<Step> steps;
    for (const PaperPart& part : parts) {
        deal(problem, classes, part, free.take(part.degree, part.num_groups), steps);
    }
    return predicted(problem, std::move(steps));
}

}  // namespace dcp::plan
