// How a row is laid out on the threads of a block.
#pragma once

#include <cstdint>
#include <string_view>

namespace dcp::kernels::cuda {

inline constexpr std::int64_t kRowVector = 8;
inline constexpr std::int64_t kMaxRowThreads = 512;

// Thread i has the vectors i, i + threads, ...: `vectors` of them, 1, 2 or 4.
struct RowShape {
    unsigned threads = 0;
    int vectors = 0;
};

// UnsupportedError for rows of more than 16,384 elements.
RowShape row_shape(std::string_view op, std::int64_t columns);

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
