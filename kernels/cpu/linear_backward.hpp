// Parts of the backward passes that head_loss.cpp uses too.
#pragma once

#include <cstdint>

#include "core/base/tensor.hpp"
#include "kernels/cpu/linear_workspace.hpp"

namespace dcp::kernels::cpu {

// How the rows of d_w [N, K] are shared among threads.
Pieces weight_tiles(std::int64_t N);

// total[k] += partials[tile, offset + k], tile after tile.
void add_norm_partials(ConstTensor partials, std::int64_t offset, Tensor total_K);

}  // namespace dcp::kernels::cpu
