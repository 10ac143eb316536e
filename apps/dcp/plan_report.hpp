// Plans for people: a table of planners, a picture of a schedule, a trace for Perfetto.
#pragma once

#include <string>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp {

struct PlanRecord {
    std::string planner;
    std::int64_t batch = 0;
    plan::Problem problem;
    plan::Plan plan;
    double plan_seconds = 0;
};

// One row a planner, over all of its batches.
std::string plan_table(const std::vector<PlanRecord>& records);

// Which share of the tokens ran at which SP degree, and how many steps recompute how much; a line a
// planner each.
std::string plan_histograms(const std::vector<PlanRecord>& records);

// Rows are ranks, columns are time; a step shows its SP degree. Large worlds show some ranks only.
std::string plan_picture(const PlanRecord& record);

// Chrome trace events: a process a planner, a track a rank. Batches follow each other in time.
std::string plan_trace(const std::vector<PlanRecord>& records);

}  // namespace dcp
