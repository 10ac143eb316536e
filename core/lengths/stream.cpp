#include "core/lengths/stream.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"

namespace dcp::lengths {

namespace {

class Shuffled final : public Stream {
public:
    Shuffled(std::vector<Length> all, std::uint64_t seed)
        : all_(std::move(all)), seed_(seed), order_(size(), seed, 0) {}

    Item peek() const override {
        const std::int64_t id = order_(position_);
        return {.id = id, .length = all_[static_cast<std::size_t>(id)]};
    }
    void advance() override {
        if (++position_ == size()) {
            position_ = 0;
            order_ = Permutation(size(), seed_, ++epoch_);
        }
    }

private:
    std::int64_t size() const { return static_cast<std::int64_t>(all_.size()); }

    std::vector<Length> all_;
    std::uint64_t seed_;
    std::uint64_t epoch_ = 0;
    std::int64_t position_ = 0;
    Permutation order_;
};

class Repeated final : public Stream {
public:
    explicit Repeated(std::vector<Length> all) : all_(std::move(all)) {}

    Item peek() const override {
        return {.id = static_cast<std::int64_t>(position_), .length = all_[position_]};
    }
    void advance() override { position_ = (position_ + 1) % all_.size(); }

private:
    std::vector<Length> all_;
    std::size_t position_ = 0;
};

class Drawn final : public Stream {
public:
    Drawn(DistributionPtr distribution, std::uint64_t seed, std::optional<std::int64_t> max_tokens)
        : distribution_(std::move(distribution)), seed_(seed), max_tokens_(max_tokens) {
        draw();
    }

    Item peek() const override {
        Length length = rest_;
        length.tokens = std::min(length.tokens, max_tokens_.value_or(length.tokens));
        return {.id = id_, .length = length};
    }
    void advance() override {
        ++id_;
        rest_.tokens -= peek().length.tokens;
        if (rest_.tokens == 0) {
            ++position_;
            draw();
        }
    }

private:
    void draw() { rest_ = distribution_->at(seed_, position_); }

    DistributionPtr distribution_;
    std::uint64_t seed_;
    std::optional<std::int64_t> max_tokens_;
    std::int64_t position_ = 0;
    std::int64_t id_ = 0;
    Length rest_;  // of the sequence at `position_`, not handed out yet
};

[[noreturn]] void refuse_cut(const Length& length, std::int64_t max_tokens) {
    throw ConfigError(
        fmt::format("a video of {} is longer than max_tokens {}, and videos are not cut: raise it, "
                    "or draw shorter ones",
                    to_string(length), max_tokens));
}

}  // namespace

std::unique_ptr<Stream> shuffled(std::vector<Length> all, std::uint64_t seed) {
    return std::make_unique<Shuffled>(std::move(all), seed);
}

std::unique_ptr<Stream> repeated(std::vector<Length> all) {
    return std::make_unique<Repeated>(std::move(all));
}

std::unique_ptr<Stream> drawn(DistributionPtr distribution,
                              std::uint64_t seed,
                              std::optional<std::int64_t> max_tokens) {
    const Length longest = distribution->longest();
    if (longest.frames > 0 && longest.tokens > max_tokens.value_or(longest.tokens)) {
        refuse_cut(longest, *max_tokens);
    }
    return std::make_unique<Drawn>(std::move(distribution), seed, max_tokens);
}

std::vector<Length> split(const std::vector<Length>& all, std::int64_t max_tokens) {
    constexpr std::int64_t kMostPieces = std::int64_t{1} << 26;
    std::vector<Length> pieces;
    std::int64_t count = 0;
    for (const Length& length : all) {
        count += (length.tokens + max_tokens - 1) / max_tokens;
        if (count > kMostPieces) {
            throw ConfigError(
                fmt::format("max_tokens {} cuts the sequences into more than {} pieces: raise it",
                            max_tokens, kMostPieces));
        }
    }
    for (const Length& length : all) {
        if (length.frames > 0 && length.tokens > max_tokens) {
            refuse_cut(length, max_tokens);
        }
        for (std::int64_t left = length.tokens; left > 0; left -= max_tokens) {
            pieces.push_back({.tokens = std::min(left, max_tokens), .frames = length.frames});
        }
    }
    return pieces;
}

std::vector<Item> next_batch(Stream& stream, const BatchSize& size, std::int64_t most) {
    std::vector<Item> batch;
    std::int64_t tokens = 0;
    while (static_cast<std::int64_t>(batch.size()) <
           std::min(most, size.sequences.value_or(most))) {
        const Item item = stream.peek();
        tokens += item.length.tokens;
        if (size.tokens && tokens > *size.tokens && !batch.empty()) {
            break;
        }
        if (static_cast<std::int64_t>(batch.size()) == kMostBatchSequences) {
            throw ConfigError(fmt::format("a batch has more than {} sequences: make it smaller",
                                          kMostBatchSequences));
        }
        batch.push_back(item);
        stream.advance();
    }
    return batch;
}

}  // namespace dcp::lengths
