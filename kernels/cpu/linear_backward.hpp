// What of the backward passes head_loss.cpp uses too.
#pragma once

#include <cstdint>

#include "core/base/tensor.hpp"

namespace dcp::kernels::cpu {

// total[k] += partials[tile, offset + k], tile after tile.
void add_norm_partials(ConstTensor partials, std::int64_t offset, Tensor total_K);

}  // namespace dcp::kernels::cpu
