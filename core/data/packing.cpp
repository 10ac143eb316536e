#include "core/data/packing.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::data {

std::vector<std::vector<std::int64_t>> pack(std::span<const std::int64_t> lengths,
                                            std::int64_t max_tokens) {
    const auto length = [&](std::int64_t index) {
        return lengths[static_cast<std::size_t>(index)];
    };
    std::vector<std::int64_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return length(a) != length(b) ? length(a) > length(b) : a < b;
    });
    if (!order.empty() && length(order.front()) > max_tokens) {
        throw DataError(
            fmt::format("sequence {} of the batch has {} tokens, more than a micro-batch "
                        "of {} holds; raise batch.micro_batch_tokens or lower "
                        "data.max_tokens",
                        order.front(), length(order.front()), max_tokens));
    }
    std::vector<std::vector<std::int64_t>> micro_batches;
    std::vector<std::int64_t> room;
    for (const std::int64_t index : order) {
        const auto first_fit =
            std::find_if(room.begin(), room.end(),
                         [&](std::int64_t free_tokens) { return free_tokens >= length(index); });
        const auto place = static_cast<std::size_t>(first_fit - room.begin());
        if (first_fit == room.end()) {
            room.push_back(max_tokens);
            micro_batches.emplace_back();
        }
        room[place] -= length(index);
        micro_batches[place].push_back(index);
    }
    return micro_batches;
}

void load_packed(const SequenceTable& table,
                 std::span<const std::int64_t> sequences,
                 PackedBatch& batch) {
    batch.cu_seqlens.assign(1, 0);
    for (const std::int64_t sequence : sequences) {
        batch.cu_seqlens.push_back(batch.cu_seqlens.back() + table.tokens(sequence));
    }
    const auto total = static_cast<std::size_t>(batch.cu_seqlens.back());
    batch.tokens_T.resize(total);
    batch.targets_T.resize(total);
    batch.positions_T.resize(total);
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        const auto begin = static_cast<std::size_t>(batch.cu_seqlens[b]);
        const auto count = static_cast<std::size_t>(batch.cu_seqlens[b + 1]) - begin;
        table.load(sequences[b], std::span(batch.tokens_T).subspan(begin, count),
                   std::span(batch.targets_T).subspan(begin, count));
        const auto positions = std::span(batch.positions_T).subspan(begin, count);
        std::iota(positions.begin(), positions.end(), 0);
    }
}

}  // namespace dcp::data
