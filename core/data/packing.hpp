// Sequences laid end to end, without padding, for one pass through the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/sequences.hpp"

namespace dcp::data {

// Splits a batch into micro-batches of at most max_tokens tokens: first-fit decreasing (Johnson
// 1973: at most 11/9 of the fewest possible, plus 2/3). Equal lengths go by index, so the result is
// a pure function of the lengths. Returns indices into `lengths`; the longest sequence is in the
// first micro-batch. DataError names a sequence that is longer than the limit.
std::vector<std::vector<std::int64_t>> pack(std::span<const std::int64_t> lengths,
                                            std::int64_t max_tokens);

// B sequences, T tokens in all; sequence b has the rows [cu_seqlens[b], cu_seqlens[b + 1]).
struct PackedBatch {
    std::vector<std::int32_t> tokens_T;
    std::vector<std::int32_t> targets_T;
    std::vector<std::int32_t> positions_T;  // from 0 in every sequence
    std::vector<std::int64_t> cu_seqlens;   // B + 1 entries

    std::int64_t num_sequences() const { return static_cast<std::int64_t>(cu_seqlens.size()) - 1; }
    std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens_T.size()); }
};

// Fills `batch` with these sequences in this order; its memory is used again.
void load_packed(const SequenceTable& table,
                 std::span<const std::int64_t> sequences,
                 PackedBatch& batch);

}  // namespace dcp::data
