// The tables of bench_plan, as text.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/plan_measure.hpp"

namespace dcp::bench {

std::string gap_table_head();
// A line a planner: makespan over bound, mean and worst, what was aimed at, and plan times. All
// measurements are of one case.
std::string gap_table_lines(const std::vector<Measurement>& measurements);

std::string rival_table_head();
// A line a planner, each set beside the first: seconds of an iteration over those of the first on
// the same batch, without and with barriers between phases, and plan times.
std::string rival_table_lines(const std::vector<Measurement>& measurements);

std::string blame_table_head();
// Of one case: the default plan over the best that longer searches found, and that over each of the
// bounds. What the first shows is the planner's fault; the rest is shared by the bound and by
// whatever no search has found.
std::string blame_table_lines(const std::vector<Measurement>& measurements);

}  // namespace dcp::bench
