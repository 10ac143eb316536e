#include "apps/dcp/cost_choice.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/config/reader.hpp"

namespace dcp {

namespace {

// On no allowed degree is the sequence alone inside what was measured.
bool is_guess(const plan::Problem& problem, const plan::Sequence& sequence) {
    return std::none_of(problem.degrees.begin(), problem.degrees.end(), [&](int degree) {
        return problem.cost->covers(plan::load_of(sequence),
                                    plan::preferred_strategy(degree, problem.heads));
    });
}

}  // namespace

CostChoice::CostChoice(const std::string& cost, const std::string& model)
    : path_(cost), file_(train::read_any_cost_file(cost)) {
    if (!model.empty()) {
        model_ = train::shape_of(config::read_config(model).config.model,
                                 std::filesystem::path(model).stem().string());
    }
}

train::PlanningCost CostChoice::cost(int ranks, std::optional<int> ranks_per_node) const {
    return train::planning_cost(file_, path_, model_, ranks, ranks_per_node);
}

void CostChoice::weigh(plan::Problem& problem, const std::string& source) const {
    const int dimensions = cost(problem.topology.ranks, problem.topology.ranks_per_node).dimensions;
    for (const plan::Sequence& sequence : problem.sequences) {
        if (dimensions == 2 && sequence.frames == 0) {
            throw ConfigError(fmt::format(
                "{}: has a sequence of {} tokens without frames, and '{}' needs frames x tokens of "
                "a frame, such as 30x405",
                source, sequence.tokens, problem.cost->name()));
        }
        if (dimensions == 1 && sequence.frames > 0) {
            throw ConfigError(
                fmt::format("{}: has a sequence of {} frames, and '{}' takes sequences of one "
                            "dimension",
                            source, sequence.frames, problem.cost->name()));
        }
    }
    plan::weigh(problem);
    const auto guesses =
        std::count_if(problem.sequences.begin(), problem.sequences.end(),
                      [&](const plan::Sequence& one) { return is_guess(problem, one); });
    if (guesses > 0) {
        fmt::print(stderr,
                   "dcp: warning: {}: {} of {} sequences alone lie outside of what was measured; "
                   "their costs are careful guesses\n",
                   path_, guesses, problem.sequences.size());
    }
}

}  // namespace dcp
