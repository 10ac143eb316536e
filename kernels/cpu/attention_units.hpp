// What there is to do, as a list of pieces: a span cut into chunks of queries (forward) or of keys
// (backward), the costliest first, so that threads that claim pieces in order end together.
//
// A chunk's cost is the number of query-key pairs in it. The order depends on the spans alone. The
// chunks of one span appear in ascending order of keys: later keys of a causal span are seen by
// fewer queries, and equal costs keep their order. The backward pass relies on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/attention.hpp"

namespace dcp::kernels::cpu {

// Keys [0, visible_keys) of the span are seen by its query; queries [first_query, q_count) see the
// key.
std::int64_t visible_keys(const AttentionSpan& span, bool causal, std::int64_t query);
std::int64_t first_query(const AttentionSpan& span, bool causal, std::int64_t key);
// A block of queries or keys of a span.
struct Range {
    std::int64_t begin = 0;
    int count = 0;
};

// Calls body(lane, lanes, keys) for the parts of a block that have something to compute: queries
// [lane, lane + lanes) of it with its first `keys` keys. One part where every query sees every key;
// otherwise groups of `group` queries, so that little is computed above the diagonal. Groups that
// see nothing are left out; they come before all others.
template <class Body>
void for_each_part(const AttentionSpan& span,
                   bool causal,
                   const Range& queries,
                   const Range& keys,
                   int group,
                   const Body& body) {
    const auto seen = [&](int lane) {
        const std::int64_t all = visible_keys(span, causal, queries.begin + lane);
        return static_cast<int>(std::clamp<std::int64_t>(all - keys.begin, 0, keys.count));
    };
    if (seen(0) == keys.count) {
        body(0, queries.count, keys.count);
        return;
    }
    for (int lane = 0; lane < queries.count; lane += group) {
        const int lanes = std::min(group, queries.count - lane);
        const int seen_keys = seen(lane + lanes - 1);
        if (seen_keys > 0) {
            body(lane, lanes, seen_keys);
        }
    }
}

// Pairs of the queries [begin, end) with all keys that they see.
std::int64_t visible_pairs(const AttentionSpan& span,
                           bool causal,
                           std::int64_t begin,
                           std::int64_t end);

struct Chunk {
    std::int32_t span = 0;
    std::int32_t index = 0;  // covers [index * chunk_size, ...) of the span
};

// Both fill `chunks` (room for max_*_chunks) and return how many there are.
std::int64_t list_query_chunks(std::span<const AttentionSpan> spans,
                               bool causal,
                               std::int64_t chunk_size,
                               Chunk* chunks);
// A span with queries but no keys has one (empty) chunk: its query gradients are still written.
std::int64_t list_key_chunks(std::span<const AttentionSpan> spans,
                             bool causal,
                             std::int64_t chunk_size,
                             Chunk* chunks);
// A chunk holds a query or a key of its own.
inline std::int64_t max_chunks(std::int64_t num_queries, std::int64_t num_keys) {
    return num_queries + num_keys;
}

}  // namespace dcp::kernels::cpu
