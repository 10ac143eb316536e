// Sequences one after the other, as training would see them, and batches of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/lengths/distribution.hpp"

namespace dcp::lengths {

struct Item {
    std::int64_t id = 0;  // of a list: the position in it; of a distribution: how many came before
    Length length;
};

class Stream {
public:
    virtual ~Stream() = default;
    virtual Item peek() const = 0;
    virtual void advance() = 0;
};

// A list again and again, each time in another random order, as training's sampler visits a data
// set: epochs without a gap. `all` is not empty.
std::unique_ptr<Stream> shuffled(std::vector<Length> all, std::uint64_t seed);
// A list again and again in its own order, as training's sampler does it without `data.shuffle`.
std::unique_ptr<Stream> repeated(std::vector<Length> all);

// Draws of a distribution. Longer ones than `max_tokens` are cut into pieces; ConfigError for
// videos, which no one cuts.
std::unique_ptr<Stream> drawn(DistributionPtr distribution,
                              std::uint64_t seed,
                              std::optional<std::int64_t> max_tokens = std::nullopt);

// Cuts texts of a list; ConfigError where a video is longer than `max_tokens`, and where there
// would be more than 2^26 pieces.
std::vector<Length> split(const std::vector<Length>& all, std::int64_t max_tokens);

// One of both. With `tokens`, sequences are added while the sum stays within it, one at least.
struct BatchSize {
    std::optional<std::int64_t> sequences;
    std::optional<std::int64_t> tokens;
};

// Sequences of a batch at most: what a planner is asked for ends somewhere.
inline constexpr std::int64_t kMostBatchSequences = std::int64_t{1} << 24;

// The next batch; no more than `most` sequences. ConfigError where it would have more than
// kMostBatchSequences.
std::vector<Item> next_batch(Stream& stream, const BatchSize& size, std::int64_t most);

}  // namespace dcp::lengths
