#include "apps/dcp/plan_check.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "apps/dcp/plan_problem.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/plan/json.hpp"
#include "core/plan/statistics.hpp"
#include "core/plan/validate.hpp"

namespace dcp {

namespace {

// What a file says besides the plan itself, against what the plan makes it.
void check_figures(const plan::PlanFile& read, const plan::Problem& problem) {
    constexpr double kPrecision = 1e-6;
    const plan::Statistics numbers = plan::statistics(problem, read.plan);
    const auto require_same = [](const char* key, double said, double found) {
        if (!(std::abs(said - found) <= kPrecision * std::max(1.0, std::abs(found)))) {
            throw PlanError(fmt::format("{} is {}, and the plan makes it {}", key, said, found));
        }
    };
    require_same("imbalance_ratio", read.imbalance_ratio, numbers.imbalance_ratio);
    require_same("tokens_per_second", read.tokens_per_second, numbers.tokens_per_second);
    if (read.label.cost != problem.cost->name()) {
        throw PlanError(fmt::format("it was made for the costs '{}', and these are '{}'",
                                    read.label.cost, problem.cost->name()));
    }
}

void require_ranks_per_node(const plan::PlanFile& read, const std::optional<int>& wanted) {
    if (wanted && *wanted != read.ranks_per_node) {
        throw PlanError(fmt::format("ranks_per_node is {}, and --ranks-per-node {}",
                                    read.ranks_per_node, *wanted));
    }
}

}  // namespace

void check_file(const PlanOptions& options, const CostChoice& choice) {
    std::ifstream file(options.check);
    if (!file) {
        throw DataError(fmt::format("{}: no such file, or it cannot be read", options.check));
    }
    std::string line;
    std::string name;
    int plans = 0;
    for (int number = 1; std::getline(file, line); ++number) {
        if (line.empty()) {
            continue;
        }
        try {
            const plan::PlanFile read = plan::from_json(line);
            require_ranks_per_node(read, options.ranks_per_node);
            PlanOptions here = options;
            here.ranks_per_node = read.ranks_per_node;
            plan::Problem problem = problem_of(here, choice, read.ranks);
            problem.sequences = read.sequences;
            problem.step_mode = read.step_mode;
            if (!read.rank_speeds.empty()) {
                problem.topology.speeds = read.rank_speeds;
            }
            choice.weigh(problem, options.check);
            plan::check_problem(problem);
            plan::validate(problem, read.plan);
            check_figures(read, problem);
            name = problem.cost->name();
        } catch (const PlanError& error) {
            throw PlanError(fmt::format("{}:{}: {}", options.check, number, error.what()));
        }
        ++plans;
    }
    if (plans == 0) {
        throw DataError(fmt::format("{}: holds no plan", options.check));
    }
    fmt::print("{}: {}, all valid under {}\n", options.check, format_counted(plans, "plan"), name);
}

}  // namespace dcp
