// What `dcp plan` and `dcp simulate` plan: batches of lengths from a distribution, a file or a
// dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/lengths/stream.hpp"
#include "core/plan/plan.hpp"

namespace dcp {

struct BatchOptions {
    std::string lengths;       // a file; or
    std::string dataset;       // a prefix; or
    std::string distribution;  // as parse_distribution() reads it
    std::optional<std::int64_t> batch_sequences;
    std::optional<std::int64_t> batch_tokens;
    std::int64_t batches = 1;
    std::uint64_t seed = 0;
    std::optional<std::int64_t> max_tokens;
};

// Lines `TOKENS` or `FRAMESxTOKENS_PER_FRAME`; # starts a comment. DataError names file and line.
std::vector<lengths::Length> read_lengths(const std::string& path);
// Of the sequences that training draws, in their order: documents cut at `max_tokens`, those that
// are held out left out.
std::vector<lengths::Length> dataset_lengths(const std::vector<std::string>& prefixes,
                                             std::optional<std::int64_t> max_tokens,
                                             std::int64_t validation_documents = 0);

std::vector<plan::Sequence> sequences_of(const std::vector<lengths::Item>& items);

// Sequences longer than max_tokens are split, as training does it. With a batch size, sequences of
// a file or dataset are drawn in a random order of the whole input, again and again, nothing left
// out, and a batch of more than there are is warned of on the error output; without a size, the
// whole input in its order is one batch. Ids are positions in the (split) input. A distribution
// needs a batch size.
std::vector<std::vector<plan::Sequence>> plan_batches(const BatchOptions& options);

}  // namespace dcp
