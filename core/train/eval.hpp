// `dcp eval`: the loss of a dataset under a weights folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/config.hpp"

namespace dcp::train {

struct EvalOptions {
    std::string weights;
    std::vector<std::string> datasets;
    std::string per_sequence;     // file for one JSON object a sequence; empty: none
    std::int64_t max_tokens = 0;  // 0: what the weights say (max_position_embeddings)
    config::ComputeType dtype = config::ComputeType::kFloat32;
    std::int64_t threads = config::kAutomatic;
};

// Prints tokens, mean loss and perplexity.
void run_eval(const EvalOptions& options);

}  // namespace dcp::train
