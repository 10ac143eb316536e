// What `dcp plan` plans: batches of lengths from a file or a dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace dcp {

struct BatchOptions {
    std::string lengths;  // a file; or
    std::string dataset;  // a prefix
    std::optional<std::int64_t> batch_sequences;
    std::optional<std::int64_t> batch_tokens;
    std::int64_t batches = 1;
    std::uint64_t seed = 0;
    std::optional<std::int64_t> max_tokens;
};

// Sequences longer than max_tokens are split, as training does it. With a batch size, sequences are
// drawn in a random order of the whole input, again and again, nothing left out; without one, the
// whole input in its order is one batch. Ids are positions in the (split) input.
std::vector<std::vector<plan::Sequence>> plan_batches(const BatchOptions& options);

}  // namespace dcp
