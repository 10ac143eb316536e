#include "core/train/model_cost.hpp"

#include <algorithm>
#include <cmath>

namespace dcp::train {

ModelFlops::ModelFlops(const config::ModelConfig& model)
    : layers_(static_cast<double>(model.layers)) {
    const auto C = static_cast<double>(model.hidden);
    const auto D = static_cast<double>(model.head_dim);
    const double matrices = model.activation == config::Activation::kSwiGlu ? 3 : 2;
    const double block = C * static_cast<double>(2 * model.heads + 2 * model.kv_heads) * D +
                         matrices * C * static_cast<double>(model.ffn);
    const double visible = model.causal ? 0.5 : 1.0;
    layers_token_ = 2 * layers_ * block;
    head_token_ = 2 * C * static_cast<double>(model.vocab);
    squared_token_ = 4 * visible * layers_ * static_cast<double>(model.heads) * D;
}

double ModelFlops::passes(std::int64_t recompute_layers) const {
    return 3 + static_cast<double>(recompute_layers) / layers_;
}

double ModelFlops::token(std::int64_t recompute_layers) const {
    return layers_token_ * passes(recompute_layers) + 3 * head_token_;
}

double ModelFlops::squared_token(std::int64_t recompute_layers) const {
    return squared_token_ * passes(recompute_layers);
}

double ModelCost::token_seconds(int recompute_layers) const {
    return flops_.token(recompute_layers) / rates_.product_flops_per_second;
}

double ModelCost::squared_token_seconds(int recompute_layers) const {
    return flops_.squared_token(recompute_layers) / rates_.attention_flops_per_second;
}

// The nearest that was measured, in ratio.
ExchangeRate ModelCost::exchange(int degree) const {
    ExchangeRate nearest;
    double distance = -1;
    for (const ExchangeRate& rate : rates_.exchanges) {
        const double here = std::fabs(std::log(static_cast<double>(rate.degree) / degree));
        if (distance < 0 || here < distance) {
            distance = here;
            nearest = rate;
        }
    }
    return nearest;
}

// Exchanges happen once in forward, once in backward and once in each recomputed layer's forward.
double ModelCost::exchange_passes(int recompute_layers) const {
    return 2 + static_cast<double>(recompute_layers) / static_cast<double>(model_.layers);
}

// Queries, keys, values and outputs of a rank's share travel once in every pass.
double ModelCost::exchange_token_seconds(int degree, int recompute_layers) const {
    if (degree == 1) {
        return 0;
    }
    const double elements = static_cast<double>(
        model_.layers * (2 * model_.heads + 2 * model_.kv_heads) * model_.head_dim);
    const double share = static_cast<double>(degree - 1) /
                         (static_cast<double>(degree) * static_cast<double>(degree));
    return elements * rates_.bytes_per_element * exchange_passes(recompute_layers) * share /
           exchange(degree).bytes_per_second;
}

double ModelCost::exchange_fixed_seconds(int degree, int recompute_layers) const {
    return degree == 1 ? 0
                       : 2 * static_cast<double>(model_.layers) *
                             exchange_passes(recompute_layers) * exchange(degree).latency_seconds;
}

int ModelCost::depth(int recompute_layers) const {
    return std::max(recompute_layers, static_cast<int>(model_.recompute_layers));
}

plan::StepCost ModelCost::cost(const plan::Load& load,
                               const plan::Strategy& strategy,
                               int recompute_layers) const {
    const int degree = strategy.degree();
    const int layers = depth(recompute_layers);
    const auto tokens = static_cast<double>(load.tokens);
    const DepthBytes& bytes = rates_.bytes_of(layers);
    return {.fixed_seconds = rates_.step_seconds,
            .compute_seconds = (token_seconds(layers) * tokens +
                                squared_token_seconds(layers) * load.squared_tokens) /
                               static_cast<double>(degree),
            .communication_seconds = exchange_fixed_seconds(degree, layers) +
                                     exchange_token_seconds(degree, layers) * tokens,
            .peak_bytes = bytes.fixed + bytes.per_token * tokens / static_cast<double>(degree)};
}

plan::LinearCost ModelCost::linear(int degree, int recompute_layers) const {
    const auto ranks = static_cast<double>(degree);
    const int layers = depth(recompute_layers);
    const DepthBytes& bytes = rates_.bytes_of(layers);
    return {.fixed_seconds = rates_.step_seconds + exchange_fixed_seconds(degree, layers),
            .token_seconds = token_seconds(layers) / ranks + exchange_token_seconds(degree, layers),
            .squared_token_seconds = squared_token_seconds(layers) / ranks,
            .static_bytes = bytes.fixed,
            .token_bytes = bytes.per_token / ranks};
}

}  // namespace dcp::train
