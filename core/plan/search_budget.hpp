// How much a search tries, by effort and by how large the problem is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/plan/planner.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

// Makespans that drafts are constructed for, over the bound; dense where good plans end.
inline constexpr double kTargets[] = {1.0, 1.006, 1.012, 1.02, 1.03, 1.05, 1.08, 1.2, 1.5, 3.0};
inline constexpr double kOneTarget[] = {1.03};

struct ArrangementStart {
    bool fills_gangs = true;      // short sequences do, before anything is moved
    bool nested_degrees = false;  // only degrees that nest
    bool fits_gangs = false;      // they first stand where least time is lost
    double moves = 1;             // share of an arrangement's moves
};

struct SearchBudget {
    std::span<const double> targets = kTargets;  // none: only arrangements, where they are possible
    std::span<const double> far_targets;         // tried where the plan is far from the bound
    std::vector<double> waste_shares = {0.0, 1.0};
    std::vector<double> solo_shares = {1.0, 0.6};
    std::vector<double> spare_shares = {0.0, 0.03};
    std::vector<double> merge_shares = {0.0, 0.75, 0.85, 0.93};
    int most_packs = 2;
    int most_thrifty_packs = 4;  // 0: micro-batches are never filled thriftily
    std::vector<double>
        fullest_merge_shares;  // the same where packs are filled exactly; none: never
    // Each with a seed of its own.
    std::vector<ArrangementStart> arrangements = {{.fills_gangs = true, .fits_gangs = true},
                                                  {.fills_gangs = false, .fits_gangs = true},
                                                  {.fills_gangs = true}};
    // A draft that promises no more than this times what was arranged needs no rival; 0: all are
    // drawn up.
    double enough = 0;
    // Families of habits are tried where arrangements leave a plan so much over the bound; 0:
    // always, and first.
    double families_from = 0;
    bool gangs_also_stay = true;  // a second annealing of what an arrangement gave, without gangs
    std::int64_t arrange_moves_a_sequence = 200;
    std::int64_t least_arrange_moves = 350;
    // An arrangement gives no gang a degree on which it lasts longer.
    double most_gang_seconds = std::numeric_limits<double>::infinity();
    // Of the moves of an arrangement, at nodes and ranks.
    std::int64_t most_arrange_looks = std::numeric_limits<std::int64_t>::max();
    std::size_t kept = 4;             // drafts of each family that are improved a little
    std::size_t finalists = 4;        // of those, drafts that are improved much
    std::int64_t least_moves = 2000;  // of an annealing
    std::int64_t moves_a_sequence = 100;
    std::int64_t final_moves_a_sequence = 1500;
};

// `share`: of the moves, where a problem is one piece of a larger one; 1: it is the whole.
SearchBudget budget_of(Effort effort, const Problem& problem, double share);

}  // namespace dcp::plan
