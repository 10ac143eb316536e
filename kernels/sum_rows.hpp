// Rows put together: copies, conversions and sums of column blocks of wider matrices. What packs
// and unpacks the blocks that ranks exchange.
//
//     to[t,c] = from[0][t,c] + from[1][t,c] + ...
//
// Added in the order of `from` in fp32 and rounded once; one source of the same type is copied bit
// by bit; no source at all writes zeros.
#pragma once

#include <span>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels {

struct SumRows {
    std::span<const ConstTensor> from;  // [T, C] each, fp32 or bf16, rows may be strided
    Tensor to;                          // [T, C]; may be from[0] itself
};
void sum_rows(Queue& queue, const SumRows& args);

// One source.
void copy_rows(Queue& queue, const ConstTensor& from, const Tensor& to);

}  // namespace dcp::kernels
