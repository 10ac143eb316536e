#include "core/train/model_cost.hpp"

namespace dcp::train {

namespace {

constexpr double kStepSeconds =
    1e-3;  // loading a micro-batch and the smallest operations of its layers

}  // namespace

// Forward and backward are three forward passes; a recomputed layer adds a third of its own.
double ModelCost::passes(int recompute_layers) const {
    return 3 + static_cast<double>(recompute_layers) / static_cast<double>(model_.layers);
}

double ModelCost::token_seconds(int recompute_layers) const {
    const auto C = static_cast<double>(model_.hidden);
    const auto D = static_cast<double>(model_.head_dim);
    const double matrices = model_.activation == config::Activation::kSwiGlu ? 3 : 2;
    const double block = C * static_cast<double>(2 * model_.heads + 2 * model_.kv_heads) * D +
                         matrices * C * static_cast<double>(model_.ffn);
    const double head = C * static_cast<double>(model_.vocab);
    const double flops =
        2 * (static_cast<double>(model_.layers) * block * passes(recompute_layers) + 3 * head);
    return flops / rates_.flops_per_second;
}

double ModelCost::squared_token_seconds(int recompute_layers) const {
    const double visible = model_.causal ? 0.5 : 1.0;
    const double flops = 4 * visible *
                         static_cast<double>(model_.layers * model_.heads * model_.head_dim) *
                         passes(recompute_layers);
    return flops / rates_.flops_per_second;
}

// Queries, keys, values and outputs of a rank's share travel once each way in every pass.
double ModelCost::exchange_token_seconds(int degree, int recompute_layers) const {
    if (degree == 1) {
        return 0;
    }
    const double elements = static_cast<double>(
        model_.layers * (2 * model_.heads + 2 * model_.kv_heads) * model_.head_dim);
    const double share = static_cast<double>(degree - 1) /
                         (static_cast<double>(degree) * static_cast<double>(degree));
    return elements * rates_.bytes_per_element * (passes(recompute_layers) - 1) * share /
           rates_.bytes_per_second;
}

double ModelCost::exchange_fixed_seconds(int degree, int recompute_layers) const {
    return degree == 1 ? 0
                       : 2 * static_cast<double>(model_.layers) * (passes(recompute_layers) - 1) *
                             rates_.latency_seconds;
}

plan::StepCost ModelCost::cost(const plan::Load& load,
                               const plan::Strategy& strategy,
                               int recompute_layers) const {
    const int degree = strategy.degree();
    const auto tokens = static_cast<double>(load.tokens);
    return {.fixed_seconds = kStepSeconds,
            .compute_seconds = (token_seconds(recompute_layers) * tokens +
                                squared_token_seconds(recompute_layers) * load.squared_tokens) /
                               static_cast<double>(degree),
            .communication_seconds = exchange_fixed_seconds(degree, recompute_layers) +
                                     exchange_token_seconds(degree, recompute_layers) * tokens,
            .peak_bytes = rates_.static_bytes +
                          rates_.bytes_per_token * tokens / static_cast<double>(degree)};
}

plan::LinearCost ModelCost::linear(int degree, int recompute_layers) const {
    const auto ranks = static_cast<double>(degree);
    return {.fixed_seconds = kStepSeconds + exchange_fixed_seconds(degree, recompute_layers),
            .token_seconds = token_seconds(recompute_layers) / ranks +
                             exchange_token_seconds(degree, recompute_layers),
            .squared_token_seconds = squared_token_seconds(recompute_layers) / ranks,
            .static_bytes = rates_.static_bytes,
            .token_bytes = rates_.bytes_per_token / ranks};
}

}  // namespace dcp::train
