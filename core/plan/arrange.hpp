// Which sequences form gangs, of which degrees, and where: decided before any short sequence has a
// place.
//
// What is left of a rank's time is filled with single-rank micro-batches, and those come in whole
// numbers: a room of 3.1 full micro-batches needs four fixed costs. So gangs are judged by how much
// of the short sequences finds no room behind them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/plan/gang.hpp"
#include "core/plan/micro_costs.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

// Gangs with their ranks, in the order they run, and what is left for single ranks.
struct Arrangement {
    std::vector<Gang> gangs;
    std::vector<std::int32_t> short_ones;
    double seconds = 0;  // what the whole plan should take
};

struct ArrangeEffort {
    std::int64_t moves = 0;
    std::uint64_t seed = 0;
    bool nested_degrees = false;  // only degrees that divide a node or are whole nodes
    // Gangs first stand where least time is lost, not on ranks that are ready soonest.
    bool fits_gangs = false;
    // No gang is given a degree on which it lasts longer.
    double most_gang_seconds = std::numeric_limits<double>::infinity();
};

// Annealing over degrees, places and contents of gangs, with a fixed number of moves. Every
// sequence of `start.short_ones` must fit one rank. `bound_seconds`: no plan is shorter.
Arrangement arrange(const Problem& problem,
                    const MicroCosts& costs,
                    Arrangement start,
                    double bound_seconds,
                    const ArrangeEffort& effort);

}  // namespace dcp::plan
