#include "core/sim/planners.hpp"

#include <algorithm>

#include "core/sim/fixed_groups.hpp"

namespace dcp::sim {

std::vector<std::string> planner_names() {
    std::vector<std::string> names = plan::planner_names();
    names.emplace_back(FixedGroupsPlanner::kName);
    return names;
}

std::unique_ptr<plan::Planner> make_planner(std::string_view name,
                                            const plan::PlannerOptions& options) {
    if (name == FixedGroupsPlanner::kName) {
        return std::make_unique<FixedGroupsPlanner>();
    }
    const std::vector<std::string> names = planner_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
        plan::refuse_planner(name, names);
    }
    return plan::make_planner(name, options);
}

}  // namespace dcp::sim
