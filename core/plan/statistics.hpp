// What people want to know of a plan.
#pragma once

#include <map>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

struct Statistics {
    // Mean over ranks of idle time / makespan; what an iteration costs once is nobody's idle time.
    double imbalance_ratio = 0;
    double tokens_per_second = 0;
    std::vector<double> busy_seconds;  // of each rank, in its steps
    std::vector<double> peak_bytes;    // of each rank; 0 without a step
    std::map<int, std::int64_t> tokens_by_degree;
    std::map<int, int> steps_by_degree;
    std::map<int, int> steps_by_recompute_layers;
};

Statistics statistics(const Problem& problem, const Plan& plan);

}  // namespace dcp::plan
