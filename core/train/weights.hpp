// Between the flat parameter array of a model and a weights folder in the Hugging Face layout
// (docs/weights.md).
#pragma once

#include <cstdint>
#include <string>

#include "core/base/queue.hpp"
#include "core/model/transformer.hpp"

namespace dcp::train {

void save_weights(const std::string& folder,
                  std::int64_t max_tokens,
                  Queue& queue,
                  const model::Transformer& model);

// DataError lists everything in the folder that does not fit the model. Prepare the model
// afterwards.
void load_weights(const std::string& folder, Queue& queue, const model::Transformer& model);

}  // namespace dcp::train
