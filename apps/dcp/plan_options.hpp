// What `dcp plan` is asked for: its command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/dcp/plan_input.hpp"

namespace CLI {
class App;
}

namespace dcp {

struct PlanOptions {
    BatchOptions batch;
    std::string cost;
    std::string model;
    std::optional<int> ranks;
    std::optional<int> ranks_per_node;
    std::string planner = "dcp";
    std::string effort = "background";
    std::string bound = "slots";
    std::vector<std::string> compare;
    std::string degrees;
    std::string recompute;
    std::string memory_budget;
    std::vector<double> rank_speeds;
    std::string step_mode = "independent";
    std::string batch_mode = "fixed";
    std::string json;
    std::string trace;
    std::string check;
};

// `options` must outlive the parsing of the command line.
void add_options(CLI::App& command, PlanOptions& options);

// ConfigError unless there is something to plan, for some ranks, or a file of plans to check.
void require_what_to_plan(const PlanOptions& options);

// ConfigError names the number that is out of range.
void check_limits(const PlanOptions& options);

}  // namespace dcp
