#include "kernels/cpu/attention_units.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace dcp::kernels::cpu {
namespace {

// Costs are sorted by their three leading binary digits: chunks in one class differ by less than a
// quarter, which is all that balance needs, and counting is linear in the number of chunks.
constexpr std::size_t kNumClasses = 256;

std::size_t cost_class(std::int64_t cost) {
    const auto value = static_cast<std::uint64_t>(cost);
    if (value < 4) {
        return value;
    }
    const auto width = static_cast<int>(std::bit_width(value));
    const std::uint64_t leading = (value >> (width - 3)) & 3U;
    return static_cast<std::size_t>(width - 2) * 4 + static_cast<std::size_t>(leading);
}

// Stable counting sort, costliest first. `each` calls its argument with (span, index, cost) for
// every chunk, twice in the same order.
template <class Each>
std::int64_t sort_chunks(const Each& each, Chunk* chunks) {
    std::array<std::int64_t, kNumClasses> begin_of_class{};
    each(
        [&](std::int32_t, std::int32_t, std::int64_t cost) { begin_of_class[cost_class(cost)]++; });
    std::int64_t total = 0;
    for (std::size_t i = kNumClasses; i-- > 0;) {
        const std::int64_t count = begin_of_class[i];
        begin_of_class[i] = total;
        total += count;
    }
    each([&](std::int32_t span, std::int32_t index, std::int64_t cost) {
        chunks[begin_of_class[cost_class(cost)]++] = {span, index};
    });
    return total;
}

std::int64_t num_chunks(std::int64_t count, std::int64_t chunk_size) {
    return (count + chunk_size - 1) / chunk_size;
}

// Pairs of the keys [begin, end) with all queries that see them.
std::int64_t key_pairs(const AttentionSpan& span,
                       bool causal,
                       std::int64_t begin,
                       std::int64_t end) {
    if (!causal) {
        return (end - begin) * span.q_count;
    }
    AttentionSpan before = span;
    before.k_count = begin;
    AttentionSpan until = span;
    until.k_count = end;
    return visible_pairs(until, causal, 0, span.q_count) -
           visible_pairs(before, causal, 0, span.q_count);
}

}  // namespace

std::int64_t visible_keys(const AttentionSpan& span, bool causal, std::int64_t query) {
    if (!causal) {
        return span.k_count;
    }
    return std::clamp<std::int64_t>(query + span.q_offset + 1, 0, span.k_count);
}

std::int64_t first_query(const AttentionSpan& span, bool causal, std::int64_t key) {
    if (!causal) {
        return 0;
    }
    return std::clamp<std::int64_t>(key - span.q_offset, 0, span.q_count);
}

std::int64_t visible_pairs(const AttentionSpan& span,
                           bool causal,
                           std::int64_t begin,
                           std::int64_t end) {
    if (!causal) {
        return (end - begin) * span.k_count;
    }
    // Queries below `some` see nothing, those from `all` on see every key; between, one more each.
    const std::int64_t some = std::clamp(-span.q_offset, begin, end);
    const std::int64_t all = std::clamp(span.k_count - span.q_offset, some, end);
    const std::int64_t growing = all - some;
    const std::int64_t first = some + span.q_offset + 1;
    return growing * first + growing * (growing - 1) / 2 + (end - all) * span.k_count;
}

std::int64_t list_query_chunks(std::span<const AttentionSpan> spans,
                               bool causal,
                               std::int64_t chunk_size,
                               Chunk* chunks) {
    const auto each = [&](const auto& visit) {
        for (std::size_t s = 0; s < spans.size(); s++) {
            const AttentionSpan& span = spans[s];
            const std::int64_t count = num_chunks(span.q_count, chunk_size);
            for (std::int64_t i = 0; i < count; i++) {
                const std::int64_t begin = i * chunk_size;
                const std::int64_t end = std::min(begin + chunk_size, span.q_count);
                visit(static_cast<std::int32_t>(s), static_cast<std::int32_t>(i),
                      visible_pairs(span, causal, begin, end));
            }
        }
    };
    return sort_chunks(each, chunks);
}

std::int64_t list_key_chunks(std::span<const AttentionSpan> spans,
                             bool causal,
                             std::int64_t chunk_size,
                             Chunk* chunks) {
    const auto each = [&](const auto& visit) {
        for (std::size_t s = 0; s < spans.size(); s++) {
            const AttentionSpan& span = spans[s];
            const std::int64_t for_queries = span.q_count > 0 ? 1 : 0;
            const std::int64_t count = std::max(num_chunks(span.k_count, chunk_size), for_queries);
            for (std::int64_t i = 0; i < count; i++) {
                const std::int64_t begin = i * chunk_size;
                const std::int64_t end = std::min(begin + chunk_size, span.k_count);
                visit(static_cast<std::int32_t>(s), static_cast<std::int32_t>(i),
                      key_pairs(span, causal, begin, end));
            }
        }
    };
    return sort_chunks(each, chunks);
}

}  // namespace dcp::kernels::cpu
