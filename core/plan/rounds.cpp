#include "core/plan/rounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/plan/draft.hpp"
#include "core/plan/gang.hpp"
#include "core/plan/round_maker.hpp"
#include "core/plan/round_search.hpp"

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

// first, first x growth, ... below `end`.
std::vector<double> steps_from(double first, double end, double growth) {
    std::vector<double> steps;
    double step = first;
    while (step < end) {
        steps.push_back(step);
        step *= growth;
    }
    return steps;
}

std::vector<std::vector<Step>> deal(const Problem& problem, std::vector<Step> steps) {
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
    std::vector<std::vector<Step>> dealt;
    for (Round& round : rounds) {
        dealt.push_back(std::move(round.steps));
    }
    return dealt;
}

// Starts for the search, and the best of what has been found.
class RoundPlanner {
public:
    RoundPlanner(const Problem& problem, Effort effort)
        : problem_(problem), costs_(problem), is_fast_(effort == Effort::kFast) {}

    void offer(const std::vector<Step>& steps) {
        starts_.push_back(round_states(problem_, costs_, deal(problem_, steps)));
    }

    // Rounds of many lengths: `pace` times what the longest sequence left takes where that is
    // fastest, and no round shorter than `level`. Level rounds waste nothing on each other; but a
    // long sequence may be dear where it must end with the short ones.
    void construct() {
        std::vector<std::int32_t> longest_first(problem_.sequences.size());
        std::iota(longest_first.begin(), longest_first.end(), 0);
        std::sort(longest_first.begin(), longest_first.end(), [&](std::int32_t a, std::int32_t b) {
            const std::int64_t tokens_a = problem_.sequences[static_cast<std::size_t>(a)].tokens;
            const std::int64_t tokens_b = problem_.sequences[static_cast<std::size_t>(b)].tokens;
            return tokens_a != tokens_b ? tokens_a > tokens_b : a < b;
        });
        const double shortest = seconds_alone(longest_first.back());
        const double longest = seconds_alone(longest_first.front());
        const double growth = is_fast_ ? kFastGrowth : kGrowth;
        RoundMaker maker(problem_, costs_.micro());
        for (const double pace : steps_from(1, kLargestPace, growth)) {
            construct(maker, longest_first, pace, 0);
        }
        for (const double pace : {1.0, 1.2, 1.5}) {
            const double most = pace == 1 ? kLargestLevel * longest : pace * longest;
            for (const double level : steps_from(shortest * growth, most, growth)) {
                construct(maker, longest_first, pace, level);
            }
        }
    }

    // The steps of every round, after short searches from many starts, longer ones from the best
    // of those, and the longest from the very best.
    std::vector<std::vector<Step>> best() {
        const auto sort = [&] {
            std::stable_sort(starts_.begin(), starts_.end(), [](const auto& a, const auto& b) {
                return total_seconds(a) < total_seconds(b);
            });
        };
        const auto count = static_cast<std::int64_t>(problem_.sequences.size());
        const std::int64_t moves = is_fast_ ? std::min<std::int64_t>(20 * count, 10'000)
                                            : std::min<std::int64_t>(200 * count, 50'000);
        std::uint64_t seed = 1;
        for (const Stage& stage : is_fast_ ? kFastStages : kStages) {
            sort();
            starts_.resize(std::min(starts_.size(), stage.starts));
            for (std::vector<RoundState>& start : starts_) {
                start = improve_rounds(problem_, std::move(start), stage.share * moves, seed++);
            }
        }
        sort();
        return round_steps(problem_, costs_, starts_.front());
    }

private:
    struct Stage {
        std::size_t starts;
        std::int64_t share;  // of moves, each
    };
    static constexpr std::array<Stage, 3> kStages{{{16, 1}, {4, 3}, {1, 8}}};
    static constexpr std::array<Stage, 3> kFastStages{{{3, 1}, {1, 2}, {1, 2}}};
    static constexpr std::int64_t kMostLooks = 400'000'000;  // a few seconds; then no more starts
    static constexpr double kLargestPace = 40;
    static constexpr double kLargestLevel = 8;
    static constexpr double kGrowth = 1.1;
    static constexpr double kFastGrowth = 1.6;

    double seconds_alone(std::int32_t sequence) const {
        return fastest(costs_.micro(),
                       load_of(problem_.sequences[static_cast<std::size_t>(sequence)])) *
               (1 + 1e-12);
    }

    void construct(RoundMaker& maker,
                   const std::vector<std::int32_t>& longest_first,
                   double pace,
                   double level) {
        if (maker.num_looks() > kMostLooks) {
            return;
        }
        std::vector<std::int32_t> left = longest_first;
        std::vector<std::vector<Step>> rounds;
        while (!left.empty()) {
            const double limit = std::max(level, pace * seconds_alone(left.front()));
            rounds.push_back(steps_of(problem_, costs_.micro(), maker.make(left, limit)));
        }
        std::vector<Step> steps;  // ranks that are idle take what comes later
        for (const std::vector<Step>& round : rounds) {
            steps.insert(steps.end(), round.begin(), round.end());
        }
        offer(steps);
        starts_.push_back(round_states(problem_, costs_, rounds));
    }

    const Problem& problem_;
    RoundCosts costs_;
    bool is_fast_;
    std::vector<std::vector<RoundState>> starts_;
};

}  // namespace

Plan plan_of_rounds(const Problem& problem, const std::vector<std::vector<Step>>& rounds) {
    std::vector<Step> steps;
    for (const std::vector<Step>& round : rounds) {
        std::vector<bool> is_taken(static_cast<std::size_t>(problem.topology.ranks), false);
        for (const Step& step : round) {
            steps.push_back(step);
            for (const int rank : step.world_ranks) {
                is_taken[static_cast<std::size_t>(rank)] = true;
            }
        }
        // A filler must fit at the depth of its round; one token does wherever a sequence does.
        const int depth =
            problem.step_mode == StepMode::kRoundsOneDepth ? round.front().recompute_layers : 0;
        for (std::size_t rank = 0; rank < is_taken.size(); ++rank) {
            if (!is_taken[rank]) {
                steps.push_back({.world_ranks = {static_cast<int>(rank)},
                                 .sequences = {},
                                 .strategy = {},
                                 .recompute_layers = depth});
            }
        }
    }
    return predicted(problem, std::move(steps));
}

Plan in_rounds(const Problem& problem, std::vector<Step> steps) {
    return plan_of_rounds(problem, deal(problem, std::move(steps)));
}

Plan plan_rounds(const Problem& problem,
                 Effort effort,
                 const std::vector<std::vector<Step>>& offers) {
    if (problem.sequences.empty()) {
        return predicted(problem, {});
    }
    RoundPlanner planner(problem, effort);
    for (const std::vector<Step>& steps : offers) {
        planner.offer(steps);
    }
    planner.construct();
    return plan_of_rounds(problem, planner.best());
}

}  // namespace dcp::plan
