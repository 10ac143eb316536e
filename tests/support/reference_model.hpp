// Transformer-1D again, in double and in the plainest loops: one sequence at a time, one token at a
// time, every score of attention stored. Shares nothing with the trainer but the names of tensors,
// so that agreement means something.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/config/config.hpp"

namespace dcp::test {

using Weights = std::map<std::string, std::vector<double>>;  // Hugging Face names

// Loss of each pair (tokens[i] -> targets[i]) of one sequence, in nats; a target of -1 gives 0.
std::vector<double> reference_losses(const config::ModelConfig& config,
                                     const Weights& weights,
                                     const std::vector<std::int32_t>& tokens,
                                     const std::vector<std::int32_t>& targets);

}  // namespace dcp::test
