#include "apps/dcp/plan_problem.hpp"

#include <iterator>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/train/cost_source.hpp"

namespace dcp {

plan::Problem problem_of(const PlanOptions& options, const CostChoice& choice, int ranks) {
    plan::Problem problem =
        train::planning_problem(choice.cost(ranks, options.ranks_per_node), ranks);
    if (!options.degrees.empty()) {
        problem.degrees = train::parse_degrees(options.degrees, ranks, "--degrees");
    }
    if (!options.memory_budget.empty()) {
        const auto bytes = parse_bytes(options.memory_budget);
        if (bytes.value_or(0) < 1) {
            throw ConfigError(
                fmt::format("--memory-budget {}: expected bytes above 0, such as 12GiB",
                            options.memory_budget));
        }
        problem.memory_budget_bytes = static_cast<double>(*bytes);
    }
    if (!options.recompute.empty()) {
        problem.may_recompute = options.recompute == "yes";
    }
    problem.step_mode = plan::parse_step_mode(options.step_mode);
    if (!options.rank_speeds.empty()) {
        if (options.rank_speeds.size() != static_cast<std::size_t>(ranks)) {
            throw ConfigError(fmt::format("--rank-speed has {} for {}: every rank needs one",
                                          format_counted(std::ssize(options.rank_speeds), "speed"),
                                          format_counted(ranks, "rank")));
        }
        problem.topology.speeds = options.rank_speeds;
    }
    for (std::size_t rank = 0; rank < options.rank_speeds.size(); ++rank) {
        const std::string fault =
            plan::speed_fault(static_cast<int>(rank), options.rank_speeds[rank]);
        if (!fault.empty()) {
            throw ConfigError(fmt::format("--rank-speed: {}", fault));
        }
    }
    return problem;
}

}  // namespace dcp
