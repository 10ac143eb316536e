// How a row is laid out on the threads of a block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::kernels::cuda {

inline constexpr std::int64_t kRowVector = 8;
inline constexpr std::int64_t kMaxRowThreads = 512;

// Thread i has the vectors i, i + threads, ...: `vectors` of them, 1, 2 or 4.
struct RowShape {
    unsigned threads = 0;
    int vectors = 0;
};

// UnsupportedError for rows of more than 16,384 elements.
inline RowShape row_shape(std::string_view op, std::int64_t columns) {
    const std::int64_t total = (columns + kRowVector - 1) / kRowVector;
    const std::int64_t warps = std::clamp<std::int64_t>((total + 31) / 32, 1, kMaxRowThreads / 32);
    const std::int64_t needed = (total + 32 * warps - 1) / (32 * warps);
    if (needed > 4) {
        throw UnsupportedError(
            fmt::format("{}: rows of {} elements; the CUDA backend takes up to {} (model.hidden)",
                        op, columns, 4 * kMaxRowThreads * kRowVector));
    }
    return {static_cast<unsigned>(32 * warps), needed <= 1 ? 1 : needed <= 2 ? 2 : 4};
}

// Calls run.template operator()<1, 2 or 4>().
template <class Run>
void for_vectors(const RowShape& shape, Run run) {
    if (shape.vectors == 1) {
        run.template operator()<1>();
    } else if (shape.vectors == 2) {
        run.template operator()<2>();
    } else {
        run.template operator()<4>();
    }
}

}  // namespace dcp::kernels::cuda
