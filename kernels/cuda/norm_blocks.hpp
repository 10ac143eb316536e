// How many blocks of tokens the backward pass of a norm has on a GPU: each keeps a row of sums for
// the gradient of the weight (and the bias) in the workspace. It depends on the number of tokens
// alone, so that results do not depend on the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dcp::kernels::cuda {

// Enough to fill a large GPU with blocks of 128 threads; fewer than 16 tokens a block would make
// the rows of sums a large part of the memory traffic.
inline std::int64_t norm_blocks(std::int64_t num_tokens) {
    constexpr std::int64_t kMostBlocks = 512;
    constexpr std::int64_t kFewestTokens = 16;
    return std::min(kMostBlocks, (num_tokens + kFewestTokens - 1) / kFewestTokens);
}

// LayerNorm takes it twice.
inline std::size_t norm_partials_bytes(std::int64_t T, std::int64_t C) {
    return static_cast<std::size_t>(norm_blocks(T) * C) * sizeof(float);
}

}  // namespace dcp::kernels::cuda
