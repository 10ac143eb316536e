#include "core/plan/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/plan/draft.hpp"
#include "core/plan/gang.hpp"

namespace dcp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Round {
    std::vector<Step> steps;
    std::vector<bool> is_taken;  // of every rank
};

bool fits_at(const Problem& problem, const Step& step, int depth) {
    Step other = step;
    other.recompute_layers = depth;
    return cost_of(problem, other).peak_bytes <= problem.memory_budget_bytes;
}

// The least depth that all steps of a round fit in, those as they are included; nothing where there
// is none.
std::optional<int> common_depth(const Problem& problem, const std::vector<Step>& steps) {
    for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
        if (std::all_of(steps.begin(), steps.end(),
                        [&](const Step& step) { return fits_at(problem, step, depth); })) {
            return depth;
        }
    }
    return std::nullopt;
}

// Whether the step can join the round; where rounds recompute alike, their depth then changes.
bool join(const Problem& problem, Round& round, const Step& step) {
    for (const int rank : step.world_ranks) {
        if (round.is_taken[static_cast<std::size_t>(rank)]) {
            return false;
        }
    }
    std::vector<Step> steps = round.steps;
    steps.push_back(step);
    if (problem.step_mode == StepMode::kRoundsOneDepth) {
        const std::optional<int> depth = common_depth(problem, steps);
        if (!depth) {
            return false;
        }
        for (Step& one : steps) {
            one.recompute_layers = *depth;
        }
    }
    round.steps = std::move(steps);
    for (const int rank : step.world_ranks) {
        round.is_taken[static_cast<std::size_t>(rank)] = true;
    }
    return true;
}

std::vector<Step> with_fillers(const Problem& problem, const std::vector<Round>& rounds) {
    std::vector<Step> steps;
    for (const Round& round : rounds) {
        steps.insert(steps.end(), round.steps.begin(), round.steps.end());
        // A filler must fit at the depth of its round; one token does wherever a sequence does.
        const int depth = round.steps.front().recompute_layers;
        for (std::size_t rank = 0; rank < round.is_taken.size(); ++rank) {
            if (!round.is_taken[rank]) {
                steps.push_back({.world_ranks = {static_cast<int>(rank)},
                                 .sequences = {},
                                 .strategy = {},
                                 .recompute_layers =
                                     problem.step_mode == StepMode::kRoundsOneDepth ? depth : 0});
            }
        }
    }
    return steps;
}

// Micro-batches of one round, each at most `limit` seconds, on ranks that are free.
class RoundMaker {
public:
    RoundMaker(const Problem& problem, const MicroCosts& costs)
        : problem_(problem), costs_(costs), placer_(problem.topology) {}

    // Takes what it can of `left` (longest first).
    std::vector<Gang> make(std::vector<std::int32_t>& left, double limit) {
        gangs_.clear();
        placer_.clear();
        std::vector<std::int32_t> kept;
        for (const std::int32_t sequence : left) {
            const Load load = load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
            if (!open_or_join(sequence, load, limit)) {
                kept.push_back(sequence);
            }
        }
        left = std::move(kept);
        return gangs_;
    }

private:
    // Cheapest in rank-seconds, the fixed cost of a new micro-batch by its share of the tokens.
    bool open_or_join(std::int32_t sequence, const Load& load, double limit) {
        double least = kNever;
        std::size_t index = 0;
        for (std::size_t i = 0; i < costs_.num_degrees(); ++i) {
            const double seconds = costs_.seconds(i, load);
            const double charge = seconds * costs_.degree(i);
            if (seconds <= limit && charge < least) {
                least = charge;
                index = i;
            }
        }
        Gang* fullest = nullptr;
        double least_room = kNever;
        for (Gang& gang : gangs_) {
            const double seconds = costs_.seconds(gang.degree_index, gang.load + load);
            const double growth = (seconds - gang.seconds) * costs_.degree(gang.degree_index);
            if (seconds <= limit && growth <= least && limit - seconds < least_room) {
                least_room = limit - seconds;
                fullest = &gang;
            }
        }
        if (fullest == nullptr) {
            if (least == kNever || !open(index)) {
                return false;
            }
            fullest = &gangs_.back();
        }
        fullest->sequences.push_back(sequence);
        fullest->load += load;
        fullest->seconds = costs_.seconds(fullest->degree_index, fullest->load);
        return true;
    }

    bool open(std::size_t index) {
        const std::vector<int>& ranks = placer_.choose(costs_.degree(index), 0, 0);
        if (std::any_of(ranks.begin(), ranks.end(),
                        [&](int rank) { return placer_.ready(rank) > 0; })) {
            return false;
        }
        gangs_.push_back({.degree_index = index, .world_ranks = ranks});
        placer_.occupy(1);
        return true;
    }

    const Problem& problem_;
    const MicroCosts& costs_;
    Placer placer_;
    std::vector<Gang> gangs_;
};

std::vector<Step> steps_of(const Problem& problem,
                           const MicroCosts& costs,
                           const std::vector<Gang>& gangs) {
    std::vector<Step> steps;
    for (const Gang& gang : gangs) {
        steps.push_back(
            {.world_ranks = gang.world_ranks,
             .sequences = gang.sequences,
             .strategy = preferred_strategy(costs.degree(gang.degree_index), problem.heads),
             .recompute_layers = costs.level(gang.degree_index, gang.load.tokens)->depth});
    }
    return steps;
}

// Least seconds of the sequence on any group.
double fastest(const MicroCosts& costs, const Load& load) {
    double least = kNever;
    for (std::size_t i = 0; i < costs.num_degrees(); ++i) {
        least = std::min(least, costs.seconds(i, load));
    }
    return least;
}

}  // namespace

Plan in_rounds(const Problem& problem, std::vector<Step> steps) {
    std::vector<Round> rounds;
    const auto ranks = static_cast<std::size_t>(problem.topology.ranks);
    std::vector<std::size_t> next(ranks, 0);  // the first round that a rank may still join
    for (Step& step : steps) {
        std::size_t round = 0;
        for (const int rank : step.world_ranks) {
            round = std::max(round, next[static_cast<std::size_t>(rank)]);
        }
        while (true) {
            if (round == rounds.size()) {
                rounds.push_back({.steps = {}, .is_taken = std::vector<bool>(ranks, false)});
            }
            if (join(problem, rounds[round], step)) {
                break;
            }
            ++round;
        }
        for (const int rank : step.world_ranks) {
            next[static_cast<std::size_t>(rank)] = round + 1;
        }
    }
    return predicted(problem, with_fillers(problem, rounds));
}

Plan plan_rounds(const Problem& problem, Effort effort) {
    const MicroCosts costs(problem);
    std::vector<std::int32_t> longest_first(problem.sequences.size());
    std::iota(longest_first.begin(), longest_first.end(), 0);
    std::sort(longest_first.begin(), longest_first.end(), [&](std::int32_t a, std::int32_t b) {
        const std::int64_t tokens_a = problem.sequences[static_cast<std::size_t>(a)].tokens;
        const std::int64_t tokens_b = problem.sequences[static_cast<std::size_t>(b)].tokens;
        return tokens_a != tokens_b ? tokens_a > tokens_b : a < b;
    });
    constexpr double kLargestPace = 40;
    const double growth = effort == Effort::kFast ? 1.5 : 1.08;
    const int tries = static_cast<int>(std::ceil(std::log(kLargestPace) / std::log(growth)));
    Plan best;
    RoundMaker maker(problem, costs);
    // Every round lasts at most `pace` times its longest sequence where that is fastest.
    double pace = 1;
    for (int i = 0; i < tries; ++i, pace *= growth) {
        std::vector<std::int32_t> left = longest_first;
        std::vector<Step> steps;
        while (!left.empty()) {
            const Load longest = load_of(problem.sequences[static_cast<std::size_t>(left.front())]);
            const double limit = pace * fastest(costs, longest) * (1 + 1e-12);
            const std::vector<Step> made = steps_of(problem, costs, maker.make(left, limit));
            steps.insert(steps.end(), made.begin(), made.end());
        }
        Plan plan = in_rounds(problem, std::move(steps));
        if (best.steps.empty() || plan.makespan_seconds < best.makespan_seconds) {
            best = std::move(plan);
        }
    }
    return best;
}

}  // namespace dcp::plan
