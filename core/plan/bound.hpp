// Lower bounds: makespans that no plan of a problem can beat, whoever makes it.
//
// The proof behind both bounds. Give every sequence a price such that, in any plan of length T, no
// rank can earn more than 1, where a micro-batch pays the prices of its sequences and each of its p
// ranks earns 1/p of that. If the prices add up to more than the number of ranks, no plan of length
// T exists. How the prices were found does not matter.
//
// In rounds every rank takes n steps, if only fillers, and each lasts as long as the fixed cost of
// a micro-batch at least. So T is impossible as soon as it is for every n, each with prices of its
// own.
#pragma once

#include "core/plan/problem.hpp"

namespace dcp::plan {

struct LowerBounds {
    double longest_seconds = 0;  // the sequence that takes longest on its best group
    double area_seconds = 0;     // rank-seconds, fixed cost shared by tokens or by time
    double slots_seconds = 0;    // the same with a whole number of micro-batches on every rank
    double speeds_seconds = 0;   // computation alone, over the speeds of all ranks together
    double rounds_seconds = 0;   // in rounds: as slots, with equally many steps on every rank

    double best_seconds() const;
};

// Everything includes what an iteration costs once. PlanError where a sequence fits nowhere. The
// bounds are found by halving, to this relative precision (never above the truth).
LowerBounds lower_bounds(const Problem& problem, double precision = 5e-5);

}  // namespace dcp::plan
