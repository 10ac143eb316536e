#include "apps/dcp/plan_input.hpp"

#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"
#include "core/data/sequences.hpp"

namespace dcp {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const std::size_t begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) {
        return {};
    }
    return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t number = 0;
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc() || stop != text.data() + text.size() || number < 1) {
        return std::nullopt;
    }
    return number;
}

// "TOKENS" or "FRAMESxTOKENS_PER_FRAME".
std::optional<plan::Sequence> parse_length(std::string_view text) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;  // of a factor
    const std::size_t cross = text.find('x');
    if (cross == std::string_view::npos) {
        const auto tokens = whole_number(text);
        return tokens ? std::optional(plan::Sequence{.tokens = *tokens}) : std::nullopt;
    }
    const auto frames = whole_number(text.substr(0, cross));
    const auto tokens = whole_number(text.substr(cross + 1));
    if (!frames || !tokens || *frames > kMost || *tokens > kMost) {
        return std::nullopt;
    }
    return plan::Sequence{.tokens = *frames * *tokens, .frames = *frames};
}

std::vector<plan::Sequence> read_lengths(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        throw DataError(fmt::format("{}: no such lengths file, or it cannot be read", path));
    }
    std::vector<plan::Sequence> lengths;
    std::string line;
    for (std::int64_t number = 1; std::getline(file, line); ++number) {
        const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
        if (text.empty()) {
            continue;
        }
        const std::optional<plan::Sequence> sequence = parse_length(text);
        if (!sequence) {
            throw DataError(fmt::format(
                "{}:{}: '{}' is not a number of tokens, 1 or more, nor frames x tokens of a frame, "
                "such as 30x405",
                path, number, text));
        }
        lengths.push_back(*sequence);
    }
    if (lengths.empty()) {
        throw DataError(fmt::format("{}: holds no length", path));
    }
    return lengths;
}

std::vector<plan::Sequence> dataset_lengths(const std::string& prefix) {
    const auto table =
        data::SequenceTable::open({prefix}, std::numeric_limits<std::int64_t>::max(), 0);
    std::vector<plan::Sequence> lengths;
    lengths.reserve(static_cast<std::size_t>(table.num_sequences()));
    for (std::int64_t sequence = 0; sequence < table.num_sequences(); ++sequence) {
        lengths.push_back({.tokens = table.tokens(sequence)});
    }
    if (lengths.empty()) {
        throw DataError(fmt::format("{}: has no sequence", prefix));
    }
    return lengths;
}

std::vector<plan::Sequence> split(const std::vector<plan::Sequence>& lengths,
                                  std::int64_t max_tokens) {
    std::vector<plan::Sequence> sequences;
    for (const plan::Sequence& whole : lengths) {
        if (whole.frames > 0 && whole.tokens > max_tokens) {
            throw DataError(fmt::format(
                "--max-tokens {}: a sequence of {} frames of {} tokens is longer and cannot be "
                "split; leave it out of the lengths",
                max_tokens, whole.frames, whole.tokens / whole.frames));
        }
        for (std::int64_t left = whole.tokens; left > 0; left -= max_tokens) {
            sequences.push_back({.id = static_cast<std::int64_t>(sequences.size()),
                                 .tokens = std::min(left, max_tokens),
                                 .frames = whole.frames});
        }
    }
    return sequences;
}

// The order of training's sampler: one permutation an epoch, epochs without a gap.
class Draw {
public:
    Draw(const std::vector<plan::Sequence>& all, std::uint64_t seed)
        : all_(all), seed_(seed), order_(size(), seed, 0) {}

    const plan::Sequence& peek() const { return all_[static_cast<std::size_t>(order_(position_))]; }
    void advance() {
        if (++position_ == size()) {
            position_ = 0;
            order_ = Permutation(size(), seed_, ++epoch_);
        }
    }

private:
    std::int64_t size() const { return static_cast<std::int64_t>(all_.size()); }

    const std::vector<plan::Sequence>& all_;
    std::uint64_t seed_;
    std::uint64_t epoch_ = 0;
    std::int64_t position_ = 0;
    Permutation order_;
};

bool is_full(const BatchOptions& options,
             const std::vector<plan::Sequence>& batch,
             std::int64_t tokens_with_next) {
    if (options.batch_sequences) {
        return static_cast<std::int64_t>(batch.size()) == *options.batch_sequences;
    }
    return !batch.empty() && tokens_with_next > options.batch_tokens.value();
}

}  // namespace

std::vector<std::vector<plan::Sequence>> plan_batches(const BatchOptions& options) {
    const std::vector<plan::Sequence> all = split(
        options.lengths.empty() ? dataset_lengths(options.dataset) : read_lengths(options.lengths),
        options.max_tokens.value_or(std::numeric_limits<std::int64_t>::max()));
    if (!options.batch_sequences && !options.batch_tokens) {
        return {all};
    }
    Draw draw(all, options.seed);
    std::vector<std::vector<plan::Sequence>> batches;
    for (std::int64_t number = 0; number < options.batches; ++number) {
        std::vector<plan::Sequence> batch;
        std::int64_t tokens = 0;
        while (!is_full(options, batch, tokens + draw.peek().tokens)) {
            batch.push_back(draw.peek());
            tokens += draw.peek().tokens;
            draw.advance();
        }
        batches.push_back(std::move(batch));
    }
    return batches;
}

}  // namespace dcp
