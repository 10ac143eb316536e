// The planner of this program: many constructions over many target times, then local search on the
// best of them.
#include <algorithm>
#include <utility>

#include "core/plan/bound.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

constexpr std::size_t kKept = 16;  // drafts that are improved
constexpr int kArrangements = 100;
constexpr double kMeanShare = 0.5;
constexpr std::int64_t kMovesASequence = 400;
constexpr std::int64_t kLeastMoves = 20'000;

// Targets over the bound, dense where good plans end.
constexpr double kTargets[] = {1.0,  1.004, 1.008, 1.012, 1.016, 1.02, 1.025, 1.03, 1.04, 1.05,
                               1.06, 1.08,  1.1,   1.13,  1.17,  1.22, 1.3,   1.5,  2.0,  4.0};

std::vector<Habits> all_habits() {
    std::vector<Habits> habits;
    for (const bool nested : {false, true}) {
        for (const double waste : {0.0, 0.4, 1.0}) {
            for (const double solo : {1.0, 0.6}) {
                for (const double spare : {0.0, 0.03}) {
                    habits.push_back({.waste_share = waste,
                                      .solo_share = solo,
                                      .nested_degrees = nested,
                                      .fill_gangs = false,
                                      .spare_share = spare});
                }
            }
            for (const int packs : {0, 1, 2}) {
                habits.push_back({.waste_share = waste,
                                  .nested_degrees = nested,
                                  .packs_a_rank = packs,
                                  .arrangements = kArrangements});
            }
            for (const double merge : {0.0, 0.75, 0.85, 0.93}) {
                for (const int packs : {1, 2, 3}) {
                    habits.push_back({.waste_share = waste,
                                      .nested_degrees = nested,
                                      .packs_a_rank = packs,
                                      .merge_share = merge});
                }
            }
        }
    }
    return habits;
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
    double promise;
    Draft draft;
};

// The most promising drafts, best first, no two alike.
void keep(std::vector<Candidate>& kept, Draft draft) {
    const double promised = promise(draft);
    const auto place = std::find_if(kept.begin(), kept.end(), [&](const Candidate& other) {
        return promised <= other.promise;
    });
    if (place != kept.end() && place->promise == promised) {
        return;
    }
    kept.insert(place, {promised, std::move(draft)});
    if (kept.size() > kKept) {
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
    const MicroCosts costs(problem);
    const Constructor constructor(problem, costs);
    std::vector<Candidate> kept;
    for (const double target : kTargets) {
        for (const Habits& habits : all_habits()) {
            keep(kept, constructor.construct((bound - once) * target, habits));
        }
    }
    const auto sequences = static_cast<std::int64_t>(problem.sequences.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
        offer(predicted(problem, kept[i].draft.steps()));
        const Draft better = improve(kept[i].draft, bound - once,
                                     std::max(kLeastMoves, kMovesASequence * sequences), i);
        offer(predicted(problem, better.steps()));
    }
    best.lower_bound_seconds = bound;
    return best;
}

}  // namespace dcp::plan
