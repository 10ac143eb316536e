// What a step costs on these ranks, measured in the first second of a run where no profile is
// given: two shapes on every rank at once, a sequence of one token, and one exchange for every
// degree that is a power of two. All ranks take part and get the same answer.
#pragma once

#include <span>

#include "comm/group_cache.hpp"
#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/config/config.hpp"
#include "core/model/transformer.hpp"
#include "core/train/model_cost.hpp"
#include "core/train/world.hpp"

namespace dcp::train {

class RatesProbe {
public:
    // The model's gradients are overwritten; everything else is left as it was.
    RatesProbe(const config::ModelConfig& config,
               Queue& queue,
               Arena& arena,
               const World& world,
               comm::GroupCache& groups,
               model::Transformer& model);

    // Collective. Fills in seconds and rates; what it knows of bytes is kept. max_tokens: the
    // largest micro-batch to try, which must fit the arena with so many layers recomputed.
    ModelRates measure(std::int64_t max_tokens, std::int64_t recompute_layers, ModelRates rates);

private:
    double step_seconds(std::int64_t num_sequences, std::int64_t tokens);
    void measure_products(std::int64_t max_tokens, ModelRates& rates);
    ExchangeRate measure_exchange(int degree);
    double exchange_seconds(comm::Communicator& group, std::int64_t block_bytes);

    const config::ModelConfig& config_;
    Queue& queue_;
    Arena& arena_;
    const World& world_;
    comm::GroupCache& groups_;
    model::Transformer& model_;
    model::LocalAttention attention_;
    std::int64_t recompute_layers_ = 0;
};

}  // namespace dcp::train
