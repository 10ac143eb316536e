// The strongest lower bound: prices from a linear program (bound of dcp/plan/bound.hpp, with the
// right to open a micro-batch shared among its sequences as a knapsack allows). Seconds, not
// milliseconds: for studies and for `dcp plan --bound lp`.
//
// Safe whatever the solver returns: the prices are made anew from its multipliers, for the exact
// lengths and every kind of micro-batch, and only their sum decides.
#pragma once

#include <limits>

#include "core/plan/problem.hpp"

namespace dcp::plan::lp {

// Seconds of an iteration that no plan beats, at least lower_bounds().best_seconds().
// `known_seconds`, a makespan that somebody reached, saves looking above it. PlanError where a
// sequence fits nowhere.
double lower_bound_seconds(const Problem& problem,
                           double known_seconds = std::numeric_limits<double>::infinity());

}  // namespace dcp::plan::lp
