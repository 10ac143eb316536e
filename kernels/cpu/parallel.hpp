// Splitting work over the threads of a queue.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/queue.hpp"

namespace dcp::kernels::cpu {

constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t by) {
    return (count + by - 1) / by;
}

// body(begin, count) for pieces of `piece` items, the last one shorter, in any order and from
// several threads. The pieces depend on the number of items alone, never on the threads. The body
// must not throw.
template <class Body>
void for_pieces(const Queue& queue, std::int64_t items, std::int64_t piece, const Body& body) {
    const std::int64_t pieces = ceil_div(items, piece);
    const auto threads = static_cast<int>(
        std::min<std::int64_t>(queue.threads(), std::max<std::int64_t>(pieces, 1)));
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (std::int64_t index = 0; index < pieces; ++index) {
        const std::int64_t begin = index * piece;
        body(begin, std::min(piece, items - begin));
    }
}

// Rows of a piece of about 32 Ki elements: enough to outweigh the start of a piece, few enough that
// threads finish together.
constexpr std::int64_t rows_per_piece(std::int64_t columns) {
    return std::clamp<std::int64_t>(32768 / std::max<std::int64_t>(columns, 1), 1, 1024);
}

}  // namespace dcp::kernels::cpu
