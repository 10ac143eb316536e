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

constexpr std::size_t kKept = 6;       // drafts of each family that are improved a little
constexpr std::size_t kFinalists = 4;  // of those, drafts that are improved much
constexpr std::int64_t kMovesASequence = 100;
constexpr std::int64_t kFinalMovesASequence = 1500;
constexpr std::int64_t kLeastMoves = 2'000;
constexpr std::int64_t kMostMoves = 1'500'000;  // of one draft
constexpr int kArrangements = 150;
constexpr double kMeanShare = 0.5;

// Targets over the bound, dense where good plans end.
constexpr double kTargets[] = {1.0,  1.004, 1.008, 1.012, 1.016, 1.02, 1.03,
                               1.04, 1.06,  1.08,  1.12,  1.2,   1.5,  3.0};
constexpr double kArrangedTargets[] = {1.005, 1.02, 1.04, 1.1};

// Habits that lead to plans of one kind compete with each other only.
struct Family {
    std::vector<Habits> habits;
    std::span<const double> targets;
};

std::vector<Family> all_families(bool all_nested) {
    Family spread{.habits = {}, .targets = kTargets};
    Family packed{.habits = {}, .targets = kTargets};
    Family arranged{.habits = {}, .targets = kArrangedTargets};
    for (const bool nested : {false, true}) {
        if (nested && all_nested) {
            break;  // they nest anyhow
        }
        for (const double waste : {0.0, 0.4, 1.0}) {
            for (const double solo : {1.0, 0.6}) {
                for (const double spare : {0.0, 0.03}) {
                    spread.habits.push_back({.waste_share = waste,
                                             .solo_share = solo,
                                             .nested_degrees = nested,
                                             .fill_gangs = false,
                                             .spare_share = spare});
                }
            }
            for (const int packs : {1, 2, 3}) {
                for (const double merge : {0.0, 0.75, 0.85, 0.93}) {
                    packed.habits.push_back({.waste_share = waste,
                                             .nested_degrees = nested,
                                             .packs_a_rank = packs,
                                             .merge_share = merge});
                }
            }
            for (const int packs : {0, 1, 2}) {
                arranged.habits.push_back({.waste_share = waste,
                                           .nested_degrees = nested,
                                           .packs_a_rank = packs,
                                           .arrangements = kArrangements});
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
    offer(IntraPlanner().plan(problem));
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
    for (const Family& family : all_families(all_nested)) {
        std::vector<Candidate> kept;
        for (const double target : family.targets) {
            for (const Habits& habits : family.habits) {
                Draft draft = constructor.construct((bound - once) * target, habits);
                const double rating = promise(draft);
                keep(kept, kKept, rating, std::move(draft));
            }
        }
        for (Candidate& candidate : kept) {
            offer(predicted(problem, candidate.draft.steps()));
            Draft better =
                improve(std::move(candidate.draft), bound - once, moves(kMovesASequence), ++seed);
            const double rating = better.busiest();
            keep(finalists, kFinalists, rating, std::move(better));
        }
    }
    for (Candidate& finalist : finalists) {
        offer(predicted(problem, finalist.draft.steps()));
        offer(predicted(problem, improve(std::move(finalist.draft), bound - once,
                                         moves(kFinalMovesASequence), ++seed)
                                     .steps()));
    }
    best.lower_bound_seconds = bound;
    return best;
}

}  // namespace dcp::plan
