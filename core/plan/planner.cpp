#include "core/plan/planner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/errors.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

std::vector<std::string> planner_names() {
    return {"dcp", "dcp-inter", "dcp-intra", "bucket", "packed", "random"};
}

std::unique_ptr<Planner> make_planner(std::string_view name, const PlannerOptions& options) {
    if (name == "dcp") {
        return std::make_unique<DcpPlanner>(options.effort);
    }
    if (name == "dcp-inter") {
        return std::make_unique<InterPlanner>();
    }
    if (name == "dcp-intra") {
        return std::make_unique<IntraPlanner>();
    }
    if (name == "bucket") {
        return std::make_unique<BucketPlanner>();
    }
    if (name == "packed") {
        return std::make_unique<PackedPlanner>();
    }
    if (name == "random") {
        return std::make_unique<RandomPlanner>(options.seed);
    }
    throw ConfigError(
        fmt::format("unknown planner '{}'; known: {}", name, fmt::join(planner_names(), ", ")));
}

}  // namespace dcp::plan
