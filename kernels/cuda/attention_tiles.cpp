#include "kernels/cuda/attention_tiles.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::kernels::cuda {

namespace {

// Positions, offsets and their sums stay within 32 bits.
constexpr std::int64_t kRowLimit = std::int64_t{1} << 29;
constexpr std::int64_t kLargestOffset = std::int64_t{1} << 30;

// (query, key) pairs that the rows of a tile have to do with, rounded up to whole tiles' edges.
std::int64_t work(const AttentionTile& tile, TileOf tile_of) {
    const std::int64_t first = tile.first;
    const std::int64_t offset = tile.q_offset;
    if (tile_of == TileOf::kQueries) {
        const std::int64_t rows = std::min<std::int64_t>(kAttentionTileRows, tile.q_count - first);
        return rows * std::clamp<std::int64_t>(first + rows + offset, 0, tile.k_count);
    }
    const std::int64_t rows = std::min<std::int64_t>(kAttentionTileRows, tile.k_count - first);
    return rows * (tile.q_count - std::clamp<std::int64_t>(first - offset, 0, tile.q_count));
}

}  // namespace

std::vector<AttentionTile> attention_tiles(std::span<const AttentionSpan> spans,
                                           bool causal,
                                           TileOf tile_of) {
    std::vector<AttentionTile> tiles;
    for (std::size_t i = 0; i < spans.size(); i++) {
        const AttentionSpan& span = spans[i];
        if (span.q_count >= kRowLimit || span.k_count >= kRowLimit) {
            throw UnsupportedError(
                fmt::format("attention: span {} has {} queries and {} keys; the CUDA backend takes "
                            "fewer than {} of each: split the sequence (data.max_tokens)",
                            i, span.q_count, span.k_count, kRowLimit));
        }
        const std::int64_t offset =
            causal ? std::clamp(span.q_offset, -kLargestOffset, kLargestOffset) : kLargestOffset;
        const std::int64_t rows = tile_of == TileOf::kQueries ? span.q_count : span.k_count;
        for (std::int64_t first = 0; first < rows; first += kAttentionTileRows) {
            tiles.push_back({.q_begin = span.q_begin,
                             .k_begin = span.k_begin,
                             .q_count = static_cast<std::int32_t>(span.q_count),
                             .k_count = static_cast<std::int32_t>(span.k_count),
                             .q_offset = static_cast<std::int32_t>(offset),
                             .first = static_cast<std::int32_t>(first)});
        }
    }
    std::sort(tiles.begin(), tiles.end(), [&](const AttentionTile& a, const AttentionTile& b) {
        const std::int64_t work_a = work(a, tile_of);
        const std::int64_t work_b = work(b, tile_of);
        return work_a != work_b ? work_a > work_b
                                : std::tie(a.q_begin, a.k_begin, a.first) <
                                      std::tie(b.q_begin, b.k_begin, b.first);
    });
    return tiles;
}

// A tile has at least one row of its own.
std::int64_t max_attention_tiles(std::int64_t num_rows) {
    return num_rows;
}

}  // namespace dcp::kernels::cuda
