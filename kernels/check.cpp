#include "kernels/check.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::kernels {

void check(bool holds, std::string_view what, std::string_view requirement) {
    if (!holds) {
        throw ShapeError(fmt::format("{} {}", what, requirement));
    }
}

void check_tensor(std::string_view what,
                  const ConstTensor& tensor,
                  const Shape& shape,
                  std::initializer_list<DType> dtypes) {
    if (tensor.shape() != shape) {
        throw ShapeError(fmt::format("{} has shape {}, not {}", what, tensor.shape().to_string(),
                                     shape.to_string()));
    }
    if (!tensor && shape.num_elems() > 0) {
        throw ShapeError(fmt::format("{} {} points nowhere", what, shape.to_string()));
    }
    if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype()) == dtypes.end()) {
        std::string wanted;
        for (const DType dtype : dtypes) {
            wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", name(dtype));
        }
        throw ShapeError(fmt::format("{} holds {}, not {}", what, name(tensor.dtype()), wanted));
    }
}

void check_optional(std::string_view what,
                    const ConstTensor& tensor,
                    const Shape& shape,
                    std::initializer_list<DType> dtypes) {
    if (tensor) {
        check_tensor(what, tensor, shape, dtypes);
    }
}

void check_contiguous(std::string_view what, const ConstTensor& tensor) {
    check(tensor.is_contiguous(), what, "must be contiguous");
}

void check_workspace(std::string_view what,
                     const ConstTensor& workspace,
                     std::size_t needed_bytes) {
    const std::int64_t given = workspace ? workspace.num_bytes() : 0;
    if (given < static_cast<std::int64_t>(needed_bytes)) {
        throw ShapeError(
            fmt::format("{} has {} bytes of workspace and needs {}", what, given, needed_bytes));
    }
}

}  // namespace dcp::kernels
