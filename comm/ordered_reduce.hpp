// The local half of a reduction: blocks of the same length from every rank become one, in the order
// in which they are listed. Element-wise, so cutting a block into pieces changes no bit.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.hpp"

namespace dcp::comm {

// out[e] = op(... op(op(blocks[0][e], blocks[1][e]), blocks[2][e]) ..., blocks.back()[e]).
// bf16 is added in fp32 and rounded once. out may be one of the blocks. Host memory.
void ordered_reduce(Queue& queue,
                    Number number,
                    ReduceOp op,
                    std::span<const void* const> blocks,
                    void* out,
                    std::int64_t num_values);

}  // namespace dcp::comm
