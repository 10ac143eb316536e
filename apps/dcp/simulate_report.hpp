// Runs of `dcp simulate` for people and for other programs.
#pragma once

#include <string>
#include <vector>

#include "core/sim/run.hpp"

namespace dcp {

// A row a run; speed-up over the first planner at the same number of ranks, efficiency as
// throughput of a rank over that of the same planner at the least number of ranks.
std::string simulate_table(const std::vector<sim::RunReport>& reports);

// The same and more, a line a run.
std::string simulate_csv(const std::vector<sim::RunReport>& reports);

// A JSON object a run and line, with all of its iterations.
std::string simulate_json(const std::string& name, const std::vector<sim::RunReport>& reports);

}  // namespace dcp
