// What a step will cost, for planners, where no profile is given: operations over the rates of
// this machine (core/train/rates_probe.hpp), bytes as the allocator will count them. Linear in
// tokens and in squared lengths, shared by the ranks of a group. The layers that the configuration
// recomputes do so in every step.
#pragma once

#include <vector>

#include "core/config/config.hpp"
#include "core/plan/cost_model.hpp"

namespace dcp::train {

// One all-to-all of a group.
struct ExchangeRate {
    int degree = 2;
    double latency_seconds = 30e-6;
    double bytes_per_second = 2e9;  // that each rank sends
};

// What a rank needs for tokens of its own: fixed + per_token * tokens.
struct DepthBytes {
    double fixed = 0;      // held whatever a step does
    double per_token = 1;  // of the rank's share
};

struct ModelRates {
    double step_seconds = 1e-3;  // a micro-batch of next to nothing
    double product_flops_per_second = 1e11;
    double attention_flops_per_second = 1e11;
    std::vector<ExchangeRate> exchanges;  // by rising degree; others are taken from the nearest
    std::vector<DepthBytes> bytes;        // by the number of layers that recompute, from 0
    double bytes_per_element = 4;         // of an activation

    const DepthBytes& bytes_of(int recompute_layers) const {
        return bytes.at(static_cast<std::size_t>(recompute_layers));
    }
};

// Floating-point operations of forward and backward, counted as in Transformer::training_flops and
// with those of recomputed layers: seconds go with tokens * token() + sum of squares *
// squared_token().
class ModelFlops {
public:
    explicit ModelFlops(const config::ModelConfig& model);
    double token(std::int64_t recompute_layers) const;
    double squared_token(std::int64_t recompute_layers) const;  // attention

private:
    // Of forward and backward, in forward passes: a recomputed layer adds one of its own.
    double passes(std::int64_t recompute_layers) const;

    double layers_;
    double layers_token_;  // of one forward pass
    double head_token_;
    double squared_token_;
};

class ModelCost final : public plan::CostModel {
public:
    ModelCost(const config::ModelConfig& model, const ModelRates& rates)
        : model_(model), flops_(model), rates_(rates) {}

    std::string_view name() const override { return "model"; }
    int layers() const override { return static_cast<int>(model_.layers); }
    double per_iteration_seconds() const override { return 0; }
    plan::StepCost cost(const plan::Load& load,
                        const plan::Strategy& strategy,
                        int recompute_layers) const override;
    plan::LinearCost linear(int degree, int recompute_layers) const override;

private:
    int depth(int recompute_layers) const;
    // Seconds a token and a squared token cost one rank alone.
    double token_seconds(int recompute_layers) const;
    double squared_token_seconds(int recompute_layers) const;
    double exchange_token_seconds(int degree, int recompute_layers) const;
    double exchange_fixed_seconds(int degree, int recompute_layers) const;
    double exchange_passes(int recompute_layers) const;
    ExchangeRate exchange(int degree) const;

    config::ModelConfig model_;
    ModelFlops flops_;
    ModelRates rates_;
};

}  // namespace dcp::train
