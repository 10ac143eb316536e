// The planners that can be simulated: all of core/plan, and one that exists for comparison only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/planner.hpp"

namespace dcp::sim {

std::vector<std::string> planner_names();

// ConfigError for an unknown name lists the known ones.
std::unique_ptr<plan::Planner> make_planner(std::string_view name,
                                            const plan::PlannerOptions& options = {});

}  // namespace dcp::sim
