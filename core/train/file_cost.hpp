// A cost file while training: seconds come from the file, bytes from the trainer, which knows them
// exactly, and what an iteration costs once is left out, as no plan changes it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/train/cost_source.hpp"
#include "core/train/model_cost.hpp"

namespace dcp::train {

class FileCost final : public plan::CostModel {
public:
    // Every step recomputes at least `least_layers` layers.
    FileCost(std::shared_ptr<const plan::CostModel> file, int least_layers, const ModelRates& rates)
        : file_(std::move(file)), least_layers_(least_layers), rates_(rates) {}

    std::string_view name() const override { return file_->name(); }
    int layers() const override { return file_->layers(); }
    double per_iteration_seconds() const override { return 0; }
    plan::StepCost cost(const plan::Load& load,
                        const plan::Strategy& strategy,
                        int recompute_layers) const override;
    plan::LinearCost linear(int degree, int recompute_layers) const override;
    std::vector<plan::CostPiece> pieces(int degree, int recompute_layers) const override;
    bool covers(const plan::Load& load, const plan::Strategy& strategy) const override {
        return file_->covers(load, strategy);
    }

private:
    int depth(int recompute_layers) const { return std::max(recompute_layers, least_layers_); }
    plan::LinearCost with_bytes(plan::LinearCost line, int degree, int recompute_layers) const;

    std::shared_ptr<const plan::CostModel> file_;
    int least_layers_;
    ModelRates rates_;
};

struct TrainingCost {
    std::shared_ptr<const plan::CostModel> model;
    std::vector<int> degrees;    // of the configuration that the file allows too
    std::vector<double> speeds;  // of every rank; empty: all 1
    std::string source;          // for messages
};

// ConfigError, which begins with the path, where a profile is not about this model on these ranks.
void check_profile(const plan::Profile& profile,
                   const config::ModelConfig& model,
                   int ranks,
                   int ranks_per_node,
                   const std::string& path);

// A profile that passed the check above. ConfigError where it allows none of `degrees`.
TrainingCost training_cost(const plan::Profile& profile,
                           const config::Config& config,
                           const ModelRates& rates,
                           const std::vector<int>& degrees,
                           int ranks,
                           int ranks_per_node);

// planner.cost for this model. ConfigError where the file is not about this model, allows none of
// `degrees`, or says that `rank_tokens` on one rank do not fit though `deepest` layers recompute.
TrainingCost training_cost(const config::Config& config,
                           const ModelRates& rates,
                           std::int64_t rank_tokens,
                           int deepest,
                           const std::vector<int>& degrees,
                           int ranks,
                           int ranks_per_node);

}  // namespace dcp::train
