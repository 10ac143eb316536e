#include "apps/dcp/plan_input.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/data/sequences.hpp"
#include "core/lengths/distribution.hpp"

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

template <class Integer>
bool parse_whole(std::string_view text, Integer& value) {
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && stop == text.data() + text.size();
}

// The beginning of a text for a message, whatever is in it.
std::string printable(std::string_view text) {
    constexpr std::size_t kShown = 40;
    std::string shown(text.substr(0, kShown));
    std::replace_if(
        shown.begin(), shown.end(),
        [](unsigned char letter) { return letter < ' ' || letter > '~'; }, '?');
    return text.size() > kShown ? shown + "..." : shown;
}

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

std::optional<lengths::Length> parse_length(std::string_view text) {
    const std::size_t times = text.find('x');
    if (times == std::string_view::npos) {
        std::int64_t tokens = 0;
        if (!parse_whole(text, tokens) || tokens < 1 || tokens > kMostTokens) {
            return std::nullopt;
        }
        return lengths::Length{.tokens = tokens};
    }
    std::int32_t frames = 0;
    std::int32_t frame_tokens = 0;
    if (!parse_whole(text.substr(0, times), frames) || frames < 1 ||
        !parse_whole(text.substr(times + 1), frame_tokens) || frame_tokens < 1 ||
        std::int64_t{frames} * frame_tokens > kMostTokens) {
        return std::nullopt;
    }
    return lengths::Length{.tokens = std::int64_t{frames} * frame_tokens, .frames = frames};
}

}  // namespace

std::vector<lengths::Length> read_lengths(const std::string& path) {
    std::ifstream file(path);
    if (!file || std::filesystem::is_directory(path)) {
        throw DataError(fmt::format("{}: no such lengths file, or it cannot be read", path));
    }
    std::vector<lengths::Length> all;
    std::string line;
    for (std::int64_t number = 1; std::getline(file, line); ++number) {
        const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
        if (text.empty()) {
            continue;
        }
        const auto length = parse_length(text);
        if (!length) {
            throw DataError(fmt::format(
                "{}:{}: '{}' is no length: TOKENS, from 1 to {}, or FRAMESxTOKENS_PER_FRAME for a "
                "video",
                path, number, printable(text), kMostTokens));
        }
        if (!all.empty() && (all.front().frames > 0) != (length->frames > 0)) {
            throw DataError(fmt::format(
                "{}:{}: '{}' beside '{}': texts and videos do not mix, no model takes both", path,
                number, text, lengths::to_string(all.front())));
        }
        all.push_back(*length);
    }
    if (all.empty()) {
        throw DataError(
            fmt::format("{}: holds no length; a lengths file has one a line, such as 1024", path));
    }
    return all;
}

std::vector<lengths::Length> dataset_lengths(const std::vector<std::string>& prefixes,
                                             std::optional<std::int64_t> max_tokens,
                                             std::int64_t validation_documents) {
    const auto table = data::SequenceTable::open(
        prefixes, max_tokens.value_or(std::numeric_limits<std::int64_t>::max()), 0);
    const data::Split split(table, validation_documents);
    std::vector<lengths::Length> all;
    all.reserve(static_cast<std::size_t>(split.num_training()));
    for (std::int64_t index = 0; index < split.num_training(); ++index) {
        all.push_back({.tokens = table.tokens(split.training(index))});
    }
    return all;
}

std::vector<plan::Sequence> sequences_of(const std::vector<lengths::Item>& items) {
    std::vector<plan::Sequence> sequences;
    sequences.reserve(items.size());
    for (const lengths::Item& item : items) {
        sequences.push_back(
            {.id = item.id, .tokens = item.length.tokens, .frames = item.length.frames});
    }
    return sequences;
}

namespace {

std::vector<lengths::Item> in_order(const std::vector<lengths::Length>& all) {
    std::vector<lengths::Item> items;
    for (const lengths::Length& length : all) {
        items.push_back({.id = static_cast<std::int64_t>(items.size()), .length = length});
    }
    return items;
}

}  // namespace

std::vector<std::vector<plan::Sequence>> plan_batches(const BatchOptions& options) {
    const bool has_size = options.batch_sequences || options.batch_tokens;
    if (!has_size && options.batches > 1) {
        throw ConfigError(
            "--batches needs a batch size: --batch-sequences B or --batch-tokens T; without one "
            "the "
            "whole input is one batch");
    }
    std::unique_ptr<lengths::Stream> stream;
    std::size_t num_sequences = 0;  // 0: without end
    if (!options.distribution.empty()) {
        const auto distribution = lengths::parse_distribution(options.distribution);
        if (!has_size) {
            throw ConfigError(
                "--distribution needs a batch size: --batch-sequences B or --batch-tokens T");
        }
        stream = lengths::drawn(distribution, options.seed, options.max_tokens);
    } else {
        std::vector<lengths::Length> all =
            options.lengths.empty() ? dataset_lengths({options.dataset}, options.max_tokens)
                                    : read_lengths(options.lengths);
        if (options.max_tokens && !options.lengths.empty()) {
            all = lengths::split(all, *options.max_tokens);
        }
        if (!has_size) {
            return {sequences_of(in_order(all))};
        }
        num_sequences = all.size();
        stream = lengths::shuffled(std::move(all), options.seed);
    }
    std::vector<std::vector<plan::Sequence>> batches;
    bool is_said = num_sequences == 0;
    for (std::int64_t number = 0; number < options.batches; ++number) {
        batches.push_back(sequences_of(lengths::next_batch(
            *stream, {.sequences = options.batch_sequences, .tokens = options.batch_tokens},
            std::numeric_limits<std::int64_t>::max())));
        if (!is_said && batches.back().size() > num_sequences) {
            is_said = true;
            fmt::print(stderr,
                       "dcp: warning: {}: has {}, and a batch of {} holds some of them more than "
                       "once\n",
                       options.lengths.empty() ? options.dataset : options.lengths,
                       format_counted(static_cast<std::int64_t>(num_sequences), "sequence"),
                       batches.back().size());
        }
    }
    return batches;
}

}  // namespace dcp
