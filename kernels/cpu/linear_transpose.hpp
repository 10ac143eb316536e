// Transposition of a tile, one thread.
#pragma once

#include "core/base/tensor.hpp"

namespace dcp::kernels::cpu {

// y[m, t] = x[t, m] for all rows t of x; y[m, t] = 0 beyond them. x [T, M], rows may be strided; y
// [M, at least T]; both fp32 or both bf16.
void transpose_tile(ConstTensor x_TM, Tensor y_MT);

}  // namespace dcp::kernels::cpu
