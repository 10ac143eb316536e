#include "core/train/file_cost.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"

namespace dcp::train {

namespace {

void check_model(const config::ModelConfig& model,
                 const PlanningCost& cost,
                 const std::string& source) {
    if (cost.model->layers() != model.layers) {
        throw ConfigError(fmt::format("{} is about a model of {} layers, and model.layers is {}",
                                      source, cost.model->layers(), model.layers));
    }
    if (cost.dimensions == 2) {
        throw ConfigError(fmt::format("{} is about sequences of two dimensions", source));
    }
    const plan::Heads heads{.query = static_cast<int>(model.heads),
                            .key_value = static_cast<int>(model.kv_heads)};
    if (cost.heads.query > 0 && cost.heads != heads) {
        throw ConfigError(fmt::format(
            "{} is about a model of {} heads and {} key and value heads, and model.heads is {}, "
            "model.kv_heads {}",
            source, cost.heads.query, cost.heads.key_value, heads.query, heads.key_value));
    }
}

// The memory that a rank has by the file must hold what the configuration puts on it.
void check_memory(const PlanningCost& cost,
                  std::int64_t rank_tokens,
                  int recompute_layers,
                  const std::string& path) {
    const auto bytes = [&](std::int64_t tokens) {
        return cost.model->cost({tokens, 0}, {1, 1}, recompute_layers).peak_bytes;
    };
    if (cost.degrees.front() > 1 || bytes(rank_tokens) <= cost.budget_bytes) {
        return;
    }
    std::int64_t held = 0;
    std::int64_t too_many = rank_tokens;
    while (too_many - held > 1) {
        const std::int64_t middle = held + (too_many - held) / 2;
        (bytes(middle) <= cost.budget_bytes ? held : too_many) = middle;
    }
    throw ConfigError(fmt::format(
        "planner.cost: by {} a micro-batch of {} tokens on one rank (batch.micro_batch_tokens) "
        "needs {} and the budget is {}; {}",
        path, rank_tokens, format_bytes(static_cast<std::int64_t>(std::ceil(bytes(rank_tokens)))),
        format_bytes(static_cast<std::int64_t>(cost.budget_bytes)),
        held > 0 ? fmt::format("lower batch.micro_batch_tokens to {} or less", held)
                 : "the model alone does not fit there"));
}

// The planner `random` draws any strategy of a degree, others keep to the preferred one.
void check_all_strategies(const plan::CostModel& model,
                          const config::ModelConfig& config,
                          const std::vector<int>& degrees,
                          const std::string& source) {
    const plan::Heads heads{.query = static_cast<int>(config.heads),
                            .key_value = static_cast<int>(config.kv_heads)};
    for (const int degree : degrees) {
        for (const plan::Strategy& strategy : plan::possible_strategies(degree, heads)) {
            try {
                model.cost({degree, 0}, strategy, 0);
            } catch (const PlanError& error) {
                throw ConfigError(fmt::format(
                    "{}: planner.name random draws every strategy, and {}", source, error.what()));
            }
        }
    }
}

// Degrees that are allowed by both, and the seconds of the model with the trainer's bytes.
TrainingCost for_training(const PlanningCost& cost,
                          const config::Config& config,
                          const ModelRates& rates,
                          const std::vector<int>& degrees,
                          int ranks,
                          const std::string& source) {
    const auto least_layers = static_cast<int>(config.model.recompute_layers);
    TrainingCost made{.model = std::make_shared<FileCost>(cost.model, least_layers, rates),
                      .degrees = {},
                      .speeds = cost.speeds,
                      .source = source};
    std::set_intersection(degrees.begin(), degrees.end(), cost.degrees.begin(), cost.degrees.end(),
                          std::back_inserter(made.degrees));
    if (made.degrees.empty()) {
        throw ConfigError(fmt::format(
            "{} allows the SP degrees {} of {} rank{}, planner.degrees {}: they have none in "
            "common",
            source, fmt::join(cost.degrees, ", "), ranks, ranks == 1 ? "" : "s",
            fmt::join(degrees, ", ")));
    }
    if (config.planner.name == "random") {
        check_all_strategies(*cost.model, config.model, made.degrees, source);
    }
    return made;
}

}  // namespace

plan::StepCost FileCost::cost(const plan::Load& load,
                              const plan::Strategy& strategy,
                              int recompute_layers) const {
    plan::StepCost cost = file_->cost(load, strategy, depth(recompute_layers));
    const DepthBytes& bytes = rates_.bytes_of(depth(recompute_layers));
    cost.peak_bytes = bytes.fixed + bytes.per_token * static_cast<double>(load.tokens) /
                                        static_cast<double>(strategy.degree());
    return cost;
}

plan::LinearCost FileCost::with_bytes(plan::LinearCost line,
                                      int degree,
                                      int recompute_layers) const {
    const DepthBytes& bytes = rates_.bytes_of(depth(recompute_layers));
    line.static_bytes = bytes.fixed;
    line.token_bytes = bytes.per_token / static_cast<double>(degree);
    return line;
}

plan::LinearCost FileCost::linear(int degree, int recompute_layers) const {
    return with_bytes(file_->linear(degree, depth(recompute_layers)), degree, recompute_layers);
}

std::vector<plan::CostPiece> FileCost::pieces(int degree, int recompute_layers) const {
    std::vector<plan::CostPiece> pieces = file_->pieces(degree, depth(recompute_layers));
    for (plan::CostPiece& piece : pieces) {
        piece.line = with_bytes(piece.line, degree, recompute_layers);
    }
    return pieces;
}

void check_profile(const plan::Profile& profile,
                   const config::ModelConfig& model,
                   int ranks,
                   int ranks_per_node,
                   const std::string& path) {
    check_model(model, planning_cost(profile, path, std::nullopt, ranks, ranks_per_node), path);
}

TrainingCost training_cost(const plan::Profile& profile,
                           const config::Config& config,
                           const ModelRates& rates,
                           const std::vector<int>& degrees,
                           int ranks,
                           int ranks_per_node) {
    const PlanningCost cost =
        planning_cost(profile, "the profile", std::nullopt, ranks, ranks_per_node);
    return for_training(cost, config, rates, degrees, ranks, "the profile");
}

TrainingCost training_cost(const config::Config& config,
                           const ModelRates& rates,
                           std::int64_t rank_tokens,
                           int deepest,
                           const std::vector<int>& degrees,
                           int ranks,
                           int ranks_per_node) {
    const std::string& path = config.planner.cost;
    const AnyCostFile file = read_any_cost_file(path);
    std::optional<plan::ModelShape> shape;
    if (std::holds_alternative<config::ClusterFile>(file)) {
        shape = shape_of(config.model, config.model.kind);
    }
    const PlanningCost cost = planning_cost(file, path, shape, ranks, ranks_per_node);
    check_model(config.model, cost, "planner.cost: " + path);
    check_memory(cost, rank_tokens, deepest, path);
    return for_training(cost, config, rates, degrees, ranks, "planner.cost: " + path);
}

}  // namespace dcp::train
