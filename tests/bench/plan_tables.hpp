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

}  // namespace dcp::bench
