// `dcp-plan-1`: a plan as one line of JSON, complete enough for another program to check it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

// What a file says about a plan besides the plan.
struct PlanLabel {
    std::string planner;
    std::string cost;
    std::int64_t batch = 0;
    std::uint64_t seed = 0;
    double plan_seconds = 0;  // how long planning took
    bool is_elastic = false;  // the number of sequences floats
};

// Every key of the format, `strategy` (ulysses, ring) of each step, and `frames` of each sequence
// where sequences have two dimensions; without a newline.
std::string to_json(const Problem& problem, const Plan& plan, const PlanLabel& label);

// A line read back: all that the file knows of the problem.
struct PlanFile {
    PlanLabel label;
    int ranks = 0;
    int ranks_per_node = 0;
    StepMode step_mode = StepMode::kIndependent;
    std::vector<double> rank_speeds;  // empty: the file says nothing of them
    std::vector<Sequence> sequences;
    Plan plan;
    double imbalance_ratio = 0;
    double tokens_per_second = 0;
};

// PlanError names the key that is missing or of the wrong type. validate() does the rest. A step
// without `strategy` is Ulysses over all of its ranks.
PlanFile from_json(std::string_view line);

}  // namespace dcp::plan
