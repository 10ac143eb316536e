// What the public functions do before a backend sees the arguments: shapes and element types,
// refused by name (ShapeError).
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels {

// Element types that arguments may have: activations as stored, statistics and losses, indices.
inline constexpr std::initializer_list<DType> kStored{DType::kFloat32, DType::kBFloat16};
inline constexpr std::initializer_list<DType> kFloat{DType::kFloat32};
inline constexpr std::initializer_list<DType> kInteger{DType::kInt32};

// `what` is "rmsnorm_forward: y_TC". The tensor must exist, unless its shape has no elements.
void check_tensor(std::string_view what,
                  const ConstTensor& tensor,
                  const Shape& shape,
                  std::initializer_list<DType> dtypes);
void check_optional(std::string_view what,
                    const ConstTensor& tensor,
                    const Shape& shape,
                    std::initializer_list<DType> dtypes);
void check_contiguous(std::string_view what, const ConstTensor& tensor);
void check_workspace(std::string_view what, const ConstTensor& workspace, std::size_t needed_bytes);
void check(bool holds, std::string_view what, std::string_view requirement);

}  // namespace dcp::kernels
