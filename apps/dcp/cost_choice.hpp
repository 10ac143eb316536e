// --cost and --model: the cost model of a planning problem.
#pragma once

#include <optional>
#include <string>

#include "core/train/cost_source.hpp"

namespace dcp {

class CostChoice {
public:
    // Reads both files; `model` may be empty. ConfigError where they do not go together.
    CostChoice(const std::string& cost, const std::string& model);

    train::PlanningCost cost(int ranks, std::optional<int> ranks_per_node) const;

    // Lets the problem's cost model weigh its sequences. ConfigError where they have dimensions
    // that it cannot have; `source` is where the sequences come from. Sequences whose cost is a
    // guess beyond what a profile measured are counted in a warning on the error output.
    void weigh(plan::Problem& problem, const std::string& source) const;

private:
    std::string path_;
    train::AnyCostFile file_;
    std::optional<plan::ModelShape> model_;
};

}  // namespace dcp
