#include "core/train/step_memory.hpp"

#include <algorithm>
#include <set>

#include "core/model/sharded_attention.hpp"
#include "core/train/batch_loader.hpp"

namespace dcp::train {

std::int64_t loaded_bytes(std::int64_t T) {
    return BatchLoader::bytes(T) + Arena::padded_bytes(DType::kFloat32, {T}) +
           2 * Arena::kAlignmentBytes;
}

StepMemory::StepMemory(const Queue& queue,
                       const model::Transformer& model,
                       const config::ModelConfig& config,
                       const std::vector<int>& degrees,
                       std::int64_t held_bytes,
                       std::int64_t floor_bytes)
    : queue_(queue),
      model_(model),
      layers_(config.layers),
      held_bytes_(held_bytes),
      floor_bytes_(floor_bytes) {
    const plan::Heads heads{.query = static_cast<int>(config.heads),
                            .key_value = static_cast<int>(config.kv_heads)};
    // A ring's buffers do not grow with it: three blocks travel at most.
    constexpr int kLargestRing = 3;
    std::set<std::pair<int, int>> distinct;
    for (const int degree : degrees) {
        for (const plan::Strategy& strategy : plan::possible_strategies(degree, heads)) {
            distinct.emplace(strategy.ulysses, std::min(strategy.ring, kLargestRing));
        }
    }
    for (const auto& [ulysses, ring] : distinct) {
        strategies_.push_back({.ulysses = ulysses, .ring = ring});
    }
}

std::int64_t StepMemory::step_bytes(std::int64_t T,
                                    const plan::Strategy& strategy,
                                    std::int64_t recompute_layers) const {
    const model::LocalAttention whole;
    const model::LargestShard shard(strategy.ulysses, strategy.ring);
    const model::AttentionBytes& attention =
        strategy.degree() == 1 ? static_cast<const model::AttentionBytes&>(whole) : shard;
    return loaded_bytes(T) + model_.training_bytes(queue_, attention, T, recompute_layers);
}

std::int64_t StepMemory::peak_bytes(std::int64_t T,
                                    const plan::Strategy& strategy,
                                    std::int64_t recompute_layers) const {
    return held_bytes_ + std::max(step_bytes(T, strategy, recompute_layers), floor_bytes_);
}

std::int64_t StepMemory::most_bytes(std::int64_t T, std::int64_t recompute_layers) const {
    std::int64_t most = 0;
    for (const plan::Strategy& strategy : strategies_) {
        most = std::max(most, peak_bytes(T, strategy, recompute_layers));
    }
    return most;
}

std::int64_t StepMemory::most_tokens(std::int64_t budget_bytes,
                                     std::int64_t at_most,
                                     std::int64_t recompute_layers,
                                     bool are_planned) const {
    const auto bytes = [&](std::int64_t T) {
        return are_planned ? planned_bytes(T, recompute_layers)
                           : static_cast<double>(most_bytes(T, recompute_layers));
    };
    std::int64_t fits = 0;
    for (std::int64_t step = at_most; step > 0; step /= 2) {
        while (fits + step <= at_most && bytes(fits + step) <= static_cast<double>(budget_bytes)) {
            fits += step;
        }
    }
    return fits;
}

// Of T tokens by the lines of a run whose ranks hold T at most.
double StepMemory::planned_bytes(std::int64_t T, std::int64_t recompute_layers) const {
    const DepthBytes bytes = line(T, recompute_layers);
    return bytes.fixed + bytes.per_token * static_cast<double>(T);
}

// Allocations are padded, workspaces do not grow evenly, and where tokens do not divide a rank has
// up to two more than its share.
DepthBytes StepMemory::line(std::int64_t rank_tokens, std::int64_t recompute_layers) const {
    constexpr double kMoreTokens = 2;
    const auto bytes = [&](std::int64_t T) {
        return static_cast<double>(most_bytes(T, recompute_layers));
    };
    const double slope = (bytes(rank_tokens) - bytes(0)) / static_cast<double>(rank_tokens);
    double fixed = 0;
    for (std::int64_t T = 0; T <= rank_tokens; T = T < 16 ? T + 1 : T + T / 16) {
        fixed = std::max(fixed, bytes(T) - slope * static_cast<double>(T));
    }
    return {.fixed = fixed + kMoreTokens * slope, .per_token = slope};
}

// Peak bytes over the depth are a straight line but for its two ends: a layer more that recomputes
// keeps its input instead of everything.
std::vector<DepthBytes> StepMemory::lines(std::int64_t budget_bytes,
                                          std::int64_t rank_tokens,
                                          std::int64_t shallowest) const {
    const auto budget = static_cast<double>(budget_bytes);
    const auto tokens = static_cast<double>(rank_tokens);
    std::vector<DepthBytes> all(static_cast<std::size_t>(layers_ + 1));
    const std::int64_t first = std::min(shallowest + 1, layers_);
    const std::int64_t last = std::max(layers_ - 1, first);
    const DepthBytes from = line(rank_tokens, first);
    const DepthBytes to = line(rank_tokens, last);
    for (std::int64_t depth = 0; depth <= layers_; ++depth) {
        DepthBytes bytes;
        if (depth <= shallowest || depth > last) {
            bytes = line(rank_tokens, std::max(depth, shallowest));
        } else {
            const double share = last == first ? 0
                                               : static_cast<double>(depth - first) /
                                                     static_cast<double>(last - first);
            bytes = {.fixed = from.fixed + share * (to.fixed - from.fixed),
                     .per_token = from.per_token + share * (to.per_token - from.per_token)};
        }
        // Rounding must not push rank_tokens themselves over it.
        constexpr double kBelow = 1 - 1e-12;
        bytes.per_token = std::max(bytes.per_token, kBelow * (budget - bytes.fixed) / tokens);
        all[static_cast<std::size_t>(depth)] = bytes;
    }
    return all;
}

}  // namespace dcp::train
