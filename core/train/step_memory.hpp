// Bytes of a step before it runs, exactly as the allocator will count them: what a rank that holds
// T tokens of a micro-batch needs, by who shares the micro-batch and how many layers recompute.
// Everything that is held whatever a step does is included.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/queue.hpp"
#include "core/model/transformer.hpp"
#include "core/plan/strategy.hpp"
#include "core/train/model_cost.hpp"

namespace dcp::train {

// A micro-batch of T tokens on a rank and the losses of its tokens, whatever is done with them.
std::int64_t loaded_bytes(std::int64_t T);

class StepMemory {
public:
    // held_bytes: parameters, gradients, optimizer states. floor_bytes: what an iteration needs
    // beyond them in any case. degrees: those that plans may use. Queue and model must outlive it.
    StepMemory(const Queue& queue,
               const model::Transformer& model,
               const config::ModelConfig& config,
               const std::vector<int>& degrees,
               std::int64_t held_bytes,
               std::int64_t floor_bytes);

    // Of an iteration whose largest step it is.
    std::int64_t peak_bytes(std::int64_t T,
                            const plan::Strategy& strategy,
                            std::int64_t recompute_layers) const;
    // What the step itself takes, beyond what is held.
    std::int64_t step_bytes(std::int64_t T,
                            const plan::Strategy& strategy,
                            std::int64_t recompute_layers) const;
    std::int64_t held_bytes() const { return held_bytes_; }
    // Of an iteration without steps.
    std::int64_t least_peak_bytes() const { return held_bytes_ + floor_bytes_; }
    // Of the strategy that needs most.
    std::int64_t most_bytes(std::int64_t T, std::int64_t recompute_layers) const;

    // The most tokens, `at_most` or fewer, that fit under every strategy; where planners place
    // them, who count with lines(), those that fit by lines(). 0 where none do.
    std::int64_t most_tokens(std::int64_t budget_bytes,
                             std::int64_t at_most,
                             std::int64_t recompute_layers,
                             bool are_planned) const;

    // For planners, by depth from 0 to the number of layers: lines that no step of up to
    // rank_tokens a rank is above, and that pass the budget where a rank's tokens pass rank_tokens.
    // Depths below `shallowest` cost what `shallowest` does.
    std::vector<DepthBytes> lines(std::int64_t budget_bytes,
                                  std::int64_t rank_tokens,
                                  std::int64_t shallowest) const;

private:
    double planned_bytes(std::int64_t T, std::int64_t recompute_layers) const;
    DepthBytes line(std::int64_t rank_tokens, std::int64_t recompute_layers) const;

    const Queue& queue_;
    const model::Transformer& model_;
    std::int64_t layers_;
    std::vector<plan::Strategy> strategies_;  // that differ in memory
    std::int64_t held_bytes_;
    std::int64_t floor_bytes_;
};

}  // namespace dcp::train
