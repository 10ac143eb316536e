// Transposition of a tile, one thread.
#pragma once

#include "core/base/tensor.hpp"

namespace dcp::kernels::cpu {

// y[m, t] = x[t, m]; x [T, M], y [M, T], rows may be strided; both fp32 or both bf16.
void transpose_tile(ConstTensor x_TM, Tensor y_MT);

}  // namespace dcp::kernels::cpu
