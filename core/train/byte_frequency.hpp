// The simplest model there is: every token has a fixed probability, its share of the training
// tokens. What a trained model must beat.
#pragma once

#include <cstdint>
#include <span>

#include "core/data/sequences.hpp"

namespace dcp::train {

// Mean loss in nats of `evaluated` under the frequencies of `counted` (add-one smoothed). Both are
// ids; at most max_tokens targets of each are read, so that this takes a moment on any dataset.
double frequency_model_loss(const data::SequenceTable& table,
                            std::span<const std::int64_t> counted,
                            std::span<const std::int64_t> evaluated,
                            std::int64_t vocab,
                            std::int64_t max_tokens);

}  // namespace dcp::train
