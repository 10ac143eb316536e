// What a step will cost, for planners, before anything has been measured: operations over the
// product rate of this machine, bytes as the allocator will count them. The shape of the answer
// (linear in tokens and in squared lengths, shared by the ranks of a group) is right, its constants
// are rough; a measured profile will take its place.
#pragma once

#include "core/config/config.hpp"
#include "core/plan/cost_model.hpp"

namespace dcp::train {

struct ModelRates {
    double flops_per_second = 1e11;  // of one rank
    double bytes_per_second = 2e9;   // between two ranks
    double latency_seconds = 30e-6;  // of one exchange
    double static_bytes = 0;         // held whatever a step does
    double bytes_per_token = 1;      // of a rank's share
    double bytes_per_element = 4;    // of an activation
};

class ModelCost final : public plan::CostModel {
public:
    ModelCost(const config::ModelConfig& model, const ModelRates& rates)
        : model_(model), rates_(rates) {}

    std::string_view name() const override { return "model"; }
    int layers() const override { return static_cast<int>(model_.layers); }
    double per_iteration_seconds() const override { return 0; }
    plan::StepCost cost(const plan::Load& load,
                        const plan::Strategy& strategy,
                        int recompute_layers) const override;
    plan::LinearCost linear(int degree, int recompute_layers) const override;

private:
    // Seconds a token and a squared token cost one rank alone.
    double token_seconds(int recompute_layers) const;
    double squared_token_seconds(int recompute_layers) const;
    double exchange_token_seconds(int degree, int recompute_layers) const;
    double exchange_fixed_seconds(int degree, int recompute_layers) const;
    double passes(int recompute_layers) const;

    config::ModelConfig model_;
    ModelRates rates_;
};

}  // namespace dcp::train
