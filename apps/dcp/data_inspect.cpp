// dcp data inspect: what is in a dataset, for a person to read.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/option_checks.hpp"
#include "core/base/units.hpp"
#include "core/data/import.hpp"
#include "core/data/length_stats.hpp"
#include "core/data/sequences.hpp"

namespace dcp {
namespace {

constexpr const char* kDescription = R"(Show what is in a dataset: counts, lengths, first documents

All files are checked as `dcp train` checks them and read once. The tokens of a sequence
are its (input, target) pairs: a document of n tokens gives n - 1. With several datasets
the lengths are those of all of them together.)";

constexpr const char* kExamples = R"(Examples:
  dcp data inspect data/manpages --max-tokens 8192
  dcp data inspect fineweb_train_000001.bin --vocab 50257

Exit status: 0 done, 2 the dataset is damaged, 3 the output cannot be written.)";

struct Options {
    std::vector<std::string> datasets;
    std::optional<std::int64_t> max_tokens;  // none: documents are not split
    std::optional<std::int64_t> vocab;
};

// Number of bytes of the UTF-8 letter that starts here, 0 where none does.
std::size_t utf8_bytes(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t count = lead < 0x80                   ? 1
                              : lead >= 0xc2 && lead < 0xe0 ? 2
                              : lead >= 0xe0 && lead < 0xf0 ? 3
                              : lead >= 0xf0 && lead < 0xf5 ? 4
                                                            : 0;
    const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) >> 6) == 2; };
    const bool is_whole =
        count > 0 && count <= text.size() &&
        std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(count),
                    is_continuation);
    return is_whole ? count : 0;
}

// One line: control characters and bytes that are no UTF-8 are written as escapes.
std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const auto code = static_cast<unsigned char>(text.front());
        const std::size_t count = utf8_bytes(text);
        if (code == '\n' || code == '\t') {
            out += code == '\n' ? "\\n" : "\\t";
        } else if (count == 0 || code < 32 || code == 127) {
            out += fmt::format("\\x{:02x}", code);
        } else {
            out += text.substr(0, count);
        }
        text.remove_prefix(std::max<std::size_t>(count, 1));
    }
    return out;
}

std::string preview(const data::TokenStore& store, std::int64_t document, bool is_bytes) {
    const std::int64_t most = is_bytes ? 64 : 12;
    const std::int64_t count = std::min(most, store.document_tokens(document));
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    store.read(document, 0, tokens);
    const char* more = count < store.document_tokens(document) ? " ..." : "";
    if (!is_bytes) {
        return fmt::format("{}{}", fmt::join(tokens, " "), more);
    }
    std::string text;
    for (const std::int32_t token : tokens) {
        if (token != data::kEndOfDocument) {
            text += static_cast<char>(token);
        }
    }
    return fmt::format("\"{}\"{}", printable(text), more);
}

void print_documents(const data::TokenStore& store, bool is_bytes) {
    const std::int64_t shown = std::min<std::int64_t>(3, store.num_documents());
    fmt::print("  first documents{}\n", is_bytes ? "" : " (token ids)");
    for (std::int64_t document = 0; document < shown; ++document) {
        fmt::print("    {:>2}  {:>11} tokens  {}\n", document,
                   format_count(store.document_tokens(document)),
                   preview(store, document, is_bytes));
    }
}

void print_store(const data::TokenStore& store) {
    const data::TokenRange range = store.token_range();
    const bool is_bytes = range.min >= 0 && range.max <= data::kEndOfDocument;
    const bool is_llmc = store.kind() == data::StoreKind::kLlmc;
    fmt::print("{}\n", store.name());
    fmt::print("  kind        {}, {} tokens{}\n",
               is_llmc ? "llm.c shard" : "Megatron indexed dataset", name(store.token_type()),
               is_llmc ? "; it stores no document boundaries and counts as one document" : "");
    fmt::print("  files       {} ({} bytes)\n", format_bytes(store.num_bytes()),
               format_count(store.num_bytes()));
    fmt::print("  documents   {}\n", format_count(store.num_documents()));
    if (!is_llmc) {
        fmt::print("  stored in   {}{}\n",
                   format_counted(store.index().num_sequences(), "sequence"),
                   store.index().has_modes() ? ", with modes (multimodal; dcp ignores them)" : "");
    }
    fmt::print("  tokens      {}, ids {} to {}{}\n", format_count(store.num_tokens()), range.min,
               range.max, is_bytes ? " (bytes)" : "");
    print_documents(store, is_bytes);
}

std::string format_length(double length) {
    const double rounded = std::round(length);
    return length == rounded || length >= 1000 ? format_count(static_cast<std::int64_t>(rounded))
                                               : fmt::format("{:.1f}", length);
}

void print_row(const char* name, const data::LengthStats& stats) {
    fmt::print("  {:<22}{:>10}{:>12}{:>12}{:>12}{:>12}{:>13}\n", name, format_count(stats.min),
               format_length(stats.median), format_length(stats.mean), format_length(stats.p90),
               format_length(stats.p99), format_count(stats.max));
}

std::string bar(double share, double largest) {
    constexpr double kWidth = 20;
    // Whatever is there at all gets a mark.
    const double length = std::min(kWidth, std::ceil(kWidth * share / largest));
    return std::string(static_cast<std::size_t>(length), '#');
}

void print_histogram(const data::LengthStats& stats) {
    double largest = 0;
    const auto share_of = [](std::int64_t part, std::int64_t all) {
        return static_cast<double>(part) / static_cast<double>(all);
    };
    for (const auto& bucket : stats.buckets) {
        largest = std::max(
            {largest, share_of(bucket.count, stats.count), share_of(bucket.sum, stats.sum)});
    }
    fmt::print("\n  {:>23}   {:>11}  {:<28}  {}\n", "tokens of a sequence", "sequences",
               "share of the sequences", "share of the tokens");
    for (const auto& bucket : stats.buckets) {
        const double by_count = share_of(bucket.count, stats.count);
        const double by_sum = share_of(bucket.sum, stats.sum);
        const std::string line =
            fmt::format("  {:>10} - {:>10}   {:>11}  {:>5.1f} % {:<20}  {:>5.1f} % {}",
                        format_count(bucket.first), format_count(std::min(bucket.last, stats.max)),
                        format_count(bucket.count), 100 * by_count, bar(by_count, largest),
                        100 * by_sum, bar(by_sum, largest));
        fmt::print("{}\n", std::string_view(line).substr(0, line.find_last_not_of(' ') + 1));
    }
}

void print_lengths(const data::SequenceTable& table, bool is_split) {
    std::vector<std::int64_t> documents;
    std::vector<std::int64_t> sequences;
    for (std::int64_t document = 0; document < table.num_documents(); ++document) {
        documents.push_back(table.document_tokens(document));
        for (auto sequence = table.first_sequence(document);
             sequence < table.first_sequence(document + 1); ++sequence) {
            sequences.push_back(table.tokens(sequence));
        }
    }
    fmt::print("\n{} with {} to train on an epoch, {}\n",
               format_counted(table.num_sequences(), "sequence"),
               format_counted(table.num_pairs(), "token"),
               is_split ? fmt::format("documents split at {}", format_count(table.max_tokens()))
                        : "documents not split (--max-tokens N splits them)");
    fmt::print("  documents of one token: {}, empty: {} (never drawn)\n\n",
               format_count(table.num_one_token_documents()),
               format_count(table.num_empty_documents()));
    fmt::print("  {:<22}{:>10}{:>12}{:>12}{:>12}{:>12}{:>13}\n", "tokens of", "min", "median",
               "mean", "p90", "p99", "max");
    print_row("a document, as stored", data::summarize(std::move(documents)));
    const auto stats = data::summarize(std::move(sequences));
    if (stats.count > 0) {
        print_row("a sequence, in pairs", stats);
        print_histogram(stats);
    }
}

void run_inspect(const Options& options) {
    require_positive("--max-tokens", options.max_tokens);
    require_positive("--vocab", options.vocab);
    std::vector<data::TokenStore> stores;
    for (const std::string& path : options.datasets) {
        stores.emplace_back(path, options.vocab.value_or(0),
                            "give the --vocab of the tokenizer that made "
                            "the dataset, or make it again");
        warn_of_unused_bytes(stores.back());
        print_store(stores.back());
    }
    const bool is_split = options.max_tokens.has_value();
    print_lengths(
        data::SequenceTable(std::move(stores),
                            options.max_tokens.value_or(std::numeric_limits<std::int64_t>::max())),
        is_split);
    if (options.vocab) {
        fmt::print("\nevery token is in the vocabulary of {}\n", format_count(*options.vocab));
    }
}

}  // namespace

void add_data_inspect(CLI::App& parent) {
    const auto options = std::make_shared<Options>();
    CLI::App* inspect = parent.add_subcommand("inspect", kDescription);
    inspect
        ->add_option("DATASET", options->datasets,
                     "PREFIX of PREFIX.bin and PREFIX.idx, or an llm.c shard")
        ->type_name("")
        ->required();
    inspect
        ->add_option("--max-tokens", options->max_tokens,
                     "Split longer documents, as data.max_tokens does in\n"
                     "training; without it they stay whole")
        ->type_name("N")
        ->check(whole_number());
    inspect
        ->add_option("--vocab", options->vocab,
                     "Check that every token is below this, as training does\n"
                     "with model.vocab")
        ->type_name("V")
        ->check(whole_number());
    inspect->footer(kExamples);
    inspect->callback([options] { run_inspect(*options); });
}

}  // namespace dcp
