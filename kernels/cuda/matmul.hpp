// C (+)= op(A) op(B), the plain product of two matrices: bf16 on tensor cores, fp32 by FMA, both
// accumulate in fp32. A second opinion for the library's products, and what runs under emulation.
#pragma once

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels::cuda {

// How an operand is stored: as it enters the product, or transposed.
enum class Stored : std::uint8_t { kPlain, kTransposed };

struct Matmul {
    ConstTensor a;  // [M, K], or [K, M] when transposed
    ConstTensor b;  // [K, N], or [N, K] when transposed
    Tensor c;       // [M, N]: fp32, or the type of a and b
    Stored a_stored = Stored::kPlain;
    Stored b_stored = Stored::kTransposed;  // weights: y = x w^T
    GradMode mode = GradMode::kOverwrite;
};

// ShapeError where shapes or types do not go together. UnsupportedError for bf16 operands whose
// rows do not start at multiples of 16 bytes, for A and B both stored transposed, and for more than
// 65,535 tiles of 64 columns.
void matmul(Queue& queue, const Matmul& args);

}  // namespace dcp::kernels::cuda
