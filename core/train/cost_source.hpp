// From a cost file of any format to the cost model that planners see, and what else the file says
// of a planning problem.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/config/cluster_file.hpp"
#include "core/config/config.hpp"
#include "core/config/cost_file.hpp"
#include "core/plan/closed_form.hpp"
#include "core/plan/hardware_model.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/profile.hpp"

namespace dcp::train {

// `dcp-cost-1`, `dcp-cluster-1` or `dcp-profile-1`, told apart by the key `format`.
using AnyCostFile = std::variant<config::CostFile, config::ClusterFile, plan::Profile>;

// ConfigError names the file and what is wrong with it.
AnyCostFile read_any_cost_file(const std::string& path);

struct PlanningCost {
    std::shared_ptr<const plan::CostModel> model;
    int ranks_per_node = 1;
    std::vector<int> degrees;  // allowed, rising, at most the number of ranks; never empty
    plan::Heads heads;
    int dimensions = 0;  // that sequences must have; 0: the model takes both
    double budget_bytes = 0;
    bool may_recompute = false;
    std::vector<double> speeds;  // of every rank; empty: all 1
};

// For so many ranks. `model` is what a cluster description needs, and the others refuse: a cost
// file and a profile hold a model already. `ranks_per_node` beats the file's. ConfigError names
// `path`.
PlanningCost planning_cost(const AnyCostFile& file,
                           const std::string& path,
                           const std::optional<plan::ModelShape>& model,
                           int ranks,
                           std::optional<int> ranks_per_node = std::nullopt);

// A problem without sequences.
plan::Problem planning_problem(const PlanningCost& cost, int ranks);

std::shared_ptr<const plan::CostModel> cost_model(const config::CostFile& file);
plan::Cluster cluster_of(const config::ClusterFile& file);
plan::ModelShape shape_of(const config::ModelConfig& model, const std::string& name);

// Degrees as the command line and the configuration write them: "any", "pow2" or a rising list such
// as "1,2,4"; those above the number of ranks are left out. ConfigError for anything else, naming
// `option`.
std::vector<int> parse_degrees(const std::string& text, int ranks, const std::string& option);

}  // namespace dcp::train
