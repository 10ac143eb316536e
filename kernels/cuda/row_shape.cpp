#include "kernels/cuda/row_shape.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::kernels::cuda {

RowShape row_shape(std::string_view op, std::int64_t columns) {
    constexpr std::int64_t kWarp = 32;
    constexpr std::int64_t kMostVectors = 4;
    const std::int64_t total = (columns + kRowVector - 1) / kRowVector;
    const std::int64_t warps =
        std::clamp<std::int64_t>((total + kWarp - 1) / kWarp, 1, kMaxRowThreads / kWarp);
    const std::int64_t needed = (total + kWarp * warps - 1) / (kWarp * warps);
    if (needed > kMostVectors) {
        throw UnsupportedError(
            fmt::format("{}: rows of {} elements; the CUDA backend takes up to {} (model.hidden)",
                        op, columns, kMostVectors * kMaxRowThreads * kRowVector));
    }
    return {static_cast<unsigned>(kWarp * warps), needed <= 1 ? 1 : needed <= 2 ? 2 : 4};
}

}  // namespace dcp::kernels::cuda
