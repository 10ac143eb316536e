// The planner of this program: many constructions over many target times, then local search on the
// best of them.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/bound.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

constexpr double kMeanShare = 0.5;
constexpr std::int64_t kLeastMoves = 2'000;
constexpr std::int64_t kMostMoves = 3'000'000;  // of one draft

// Targets over the bound, dense where good plans end.
constexpr double kTargets[] = {1.0,  1.004, 1.008, 1.012, 1.016, 1.02, 1.03,
                               1.04, 1.06,  1.08,  1.12,  1.2,   1.5,  3.0};
constexpr double kArrangedTargets[] = {1.005, 1.02, 1.04, 1.1};
constexpr double kFewTargets[] = {1.01, 1.03, 1.08, 3.0};

// How much is tried. Counts, never seconds: the result must not depend on the machine.
struct Budget {
    std::span<const double> targets = kTargets;
    std::span<const double> arranged_targets = kArrangedTargets;
    std::vector<double> waste_shares = {0.0, 0.4, 1.0};
    std::vector<double> merge_shares = {0.0, 0.75, 0.85, 0.93};
    int most_packs = 3;
    int arrangements = 150;
    std::size_t kept = 6;       // drafts of each family that are improved a little
    std::size_t finalists = 4;  // of those, drafts that are improved much
    std::int64_t moves_a_sequence = 100;
    std::int64_t final_moves_a_sequence = 1500;
};

// From here on one construction takes milliseconds, and many alike gain less than moves do.
constexpr std::size_t kManySequences = 2500;

Budget budget_of(Effort effort, std::size_t num_sequences) {
    if (effort == Effort::kBackground && num_sequences < kManySequences) {
        return {};
    }
    Budget budget{.targets = kFewTargets,
                  .arranged_targets = {},
                  .waste_shares = {0.4},
                  .merge_shares = {0.0, 0.85},
                  .most_packs = 1,
                  .arrangements = 0,
                  .kept = 2,
                  .finalists = 1,
                  .moves_a_sequence = 15,
                  .final_moves_a_sequence = 40};
    if (effort == Effort::kBackground) {
        budget.kept = 3;
        budget.finalists = 2;
        budget.final_moves_a_sequence = 400;
    }
    return budget;
}

// Habits that lead to plans of one kind compete with each other only.
struct Family {
    std::vector<Habits> habits;
    std::span<const double> targets;
};

std::vector<Family> all_families(const Budget& budget, bool all_nested) {
    Family spread{.habits = {}, .targets = budget.targets};
    Family packed{.habits = {}, .targets = budget.targets};
    Family arranged{.habits = {}, .targets = budget.arranged_targets};
    for (const bool nested : {true, false}) {
        if (!nested && all_nested) {
            break;  // there is nothing else
        }
        for (const double waste : budget.waste_shares) {
            for (const double solo : {1.0, 0.6}) {
                for (const double spare : {0.0, 0.03}) {
                    spread.habits.push_back({.waste_share = waste,
                                             .solo_share = solo,
                                             .nested_degrees = nested,
                                             .fill_gangs = false,
                                             .spare_share = spare});
                }
            }
            for (int packs = 1; packs <= budget.most_packs; ++packs) {
                for (const double merge : budget.merge_shares) {
                    packed.habits.push_back({.waste_share = waste,
                                             .nested_degrees = nested,
                                             .packs_a_rank = packs,
                                             .merge_share = merge});
                }
            }
            for (int packs = 0; packs <= 2; ++packs) {
                arranged.habits.push_back({.waste_share = waste,
                                           .nested_degrees = nested,
                                           .packs_a_rank = packs,
                                           .arrangements = budget.arrangements});
            }
        }
    }
    return {spread, packed, arranged};
}

// What a draft promises: annealing levels the ranks, so their mean counts as much as the busiest.
double promise(const Draft& draft) {
    double sum = 0;
    for (const double busy : draft.busy()) {
        sum += busy;
    }
    return kMeanShare * sum / static_cast<double>(draft.busy().size()) +
           (1 - kMeanShare) * draft.busiest();
}

struct Candidate {
    double rating;  // the less the better
    Draft draft;
};

// The best few, best first, no two alike.
void keep(std::vector<Candidate>& kept, std::size_t most, double rating, Draft draft) {
    const auto place = std::find_if(kept.begin(), kept.end(),
                                    [&](const Candidate& other) { return rating <= other.rating; });
    if (place != kept.end() && place->rating == rating) {
        return;
    }
    kept.insert(place, {rating, std::move(draft)});
    if (kept.size() > most) {
        kept.pop_back();
    }
}

}  // namespace

Plan DcpPlanner::plan(const Problem& problem) const {
    const double bound = lower_bounds(problem).best_seconds();
    const double once = problem.cost->per_iteration_seconds();
    Plan best = BucketPlanner().plan(problem);
    const auto offer = [&](Plan plan) {
        if (plan.makespan_seconds < best.makespan_seconds) {
            best = std::move(plan);
        }
    };
    offer(PackedPlanner().plan(problem));
    offer(InterPlanner().plan(problem));
    if (effort_ == Effort::kBackground) {
        offer(IntraPlanner().plan(problem));
    }
    const Budget budget = budget_of(effort_, problem.sequences.size());
    const MicroCosts costs(problem);
    const Constructor constructor(problem, costs);
    const int node = problem.topology.ranks_per_node;
    const bool all_nested = std::all_of(problem.degrees.begin(), problem.degrees.end(),
                                        [node](int p) { return node % p == 0 || p % node == 0; });
    const auto sequences = static_cast<std::int64_t>(problem.sequences.size());
    const auto moves = [&](std::int64_t a_sequence) {
        return std::clamp(a_sequence * sequences, kLeastMoves, kMostMoves);
    };
    std::vector<Candidate> finalists;
    std::uint64_t seed = 0;
    for (const Family& family : all_families(budget, all_nested)) {
        std::vector<Candidate> kept;
        for (const double target : family.targets) {
            for (const Habits& habits : family.habits) {
                Draft draft = constructor.construct((bound - once) * target, habits);
                const double rating = promise(draft);
                keep(kept, budget.kept, rating, std::move(draft));
            }
        }
        for (Candidate& candidate : kept) {
            offer(predicted(problem, candidate.draft.steps()));
            Draft better = improve(std::move(candidate.draft), bound - once,
                                   moves(budget.moves_a_sequence), ++seed);
            const double rating = better.busiest();
            keep(finalists, budget.finalists, rating, std::move(better));
        }
    }
    for (Candidate& finalist : finalists) {
        offer(predicted(problem, finalist.draft.steps()));
        offer(predicted(problem, improve(std::move(finalist.draft), bound - once,
                                         moves(budget.final_moves_a_sequence), ++seed)
                                     .steps()));
    }
    best.lower_bound_seconds = bound;
    return best;
}

}  // namespace dcp::plan
