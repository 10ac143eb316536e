// Loss of given sequences under the current weights; nothing is updated. Serves validation while
// training and `dcp eval`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/data/sequences.hpp"
#include "core/model/transformer.hpp"
#include "core/train/batch_loader.hpp"

namespace dcp::train {

struct LossTotal {
    double loss_sum = 0;  // nats, over all tokens
    std::int64_t tokens = 0;

    double mean() const { return tokens > 0 ? loss_sum / static_cast<double>(tokens) : 0; }
};

class Evaluator {
public:
    // Micro-batches hold at most micro_batch_tokens; no sequence may be longer.
    Evaluator(model::Transformer& model,
              const data::SequenceTable& table,
              std::int64_t micro_batch_tokens)
        : model_(model), table_(table), loader_(table), micro_batch_tokens_(micro_batch_tokens) {}

    // Calls report(sequence, tokens, loss_sum), in the order of `sequences`, when it is given.
    using Report = std::function<void(std::int64_t, std::int64_t, double)>;
    LossTotal run(Queue& queue,
                  Arena& arena,
                  std::span<const std::int64_t> sequences,
                  const Report& report = {});

private:
    void run_micro_batch(Queue& queue,
                         Arena& arena,
                         std::span<const std::int64_t> sequences,
                         std::span<double> loss_sums);

    model::Transformer& model_;
    const data::SequenceTable& table_;
    BatchLoader loader_;
    std::int64_t micro_batch_tokens_;
    std::vector<float> host_losses_;
};

}  // namespace dcp::train
