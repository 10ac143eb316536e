// The work list of an attention call: spans cut into tiles of rows, one block of threads a tile and
// head. Built on the host, copied to the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.hpp"

namespace dcp::kernels::cuda {

inline constexpr int kAttentionTileRows = 64;

// Rows [first, first + kAttentionTileRows) of the queries (or of the keys) of one span. Query i of
// the span sees key j when j <= i + q_offset; without a causal mask q_offset is so large that every
// query sees all.
struct AttentionTile {
    std::int64_t q_begin = 0;
    std::int64_t k_begin = 0;
    std::int32_t q_count = 0;
    std::int32_t k_count = 0;
    std::int32_t q_offset = 0;
    std::int32_t first = 0;
};

enum class TileOf : std::uint8_t { kQueries, kKeys };

// Most work first, so that the last blocks to finish are short ones; in the order of rows where
// equal. UnsupportedError for a span of 2^29 rows or more.
std::vector<AttentionTile> attention_tiles(std::span<const AttentionSpan> spans,
                                           bool causal,
                                           TileOf tile_of);

// At most this many tiles, whatever the spans over so many rows.
std::int64_t max_attention_tiles(std::int64_t num_rows);

}  // namespace dcp::kernels::cuda
