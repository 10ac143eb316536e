// Matrices in device memory as kernels get them: rows that are `stride` elements apart.
#pragma once

#include <cstdint>

#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels::cuda {

struct Rows {
    const void* data = nullptr;
    std::int64_t stride = 0;
    bool is_bf16 = false;
};
inline Rows rows_of(const ConstTensor& tensor) {
    return {tensor.data(), tensor.row_stride(), tensor.dtype() == DType::kBFloat16};
}

// A result of either type, overwritten or added to.
struct Target {
    void* data = nullptr;
    std::int64_t stride = 0;
    bool is_bf16 = false;
    bool accumulates = false;
};
inline Target target_of(const Tensor& tensor, GradMode mode = GradMode::kOverwrite) {
    return {tensor.data(), tensor.row_stride(), tensor.dtype() == DType::kBFloat16,
            mode == GradMode::kAccumulate};
}

}  // namespace dcp::kernels::cuda
