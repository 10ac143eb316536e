// dcp data lengths: the lengths of a dataset's sequences, one a line, as `dcp plan --lengths` reads
// them.
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/option_checks.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/data/sequences.hpp"

namespace dcp {
namespace {

constexpr const char* kDescription = R"(Print the lengths of a dataset's sequences

One number a line: the tokens of a sequence, which are its (input, target) pairs, so a
document of n tokens gives n - 1. The order is that of the sequence ids in logs and
plans: datasets as given, documents in order, pieces in order. Lines that start with #
are comments. `dcp plan --lengths` reads the file.)";

constexpr const char* kExamples = R"(Examples:
  dcp data lengths data/manpages --max-tokens 8192 --out manpages.lengths
  dcp data lengths data/manpages | grep -v '#' | sort -n | tail -1

Exit status: 0 done, 2 the dataset is damaged, 3 the lengths cannot be written.)";

struct Options {
    std::vector<std::string> datasets;
    std::optional<std::int64_t> max_tokens;  // none: documents are not split
    std::string out;
};

std::string lengths_text(const Options& options) {
    const bool is_split = options.max_tokens.has_value();
    const auto table = data::SequenceTable::open(
        options.datasets, options.max_tokens.value_or(std::numeric_limits<std::int64_t>::max()), 0);
    for (const data::TokenStore& store : table.stores()) {
        warn_of_unused_bytes(store);
    }
    fmt::memory_buffer text;
    const auto end = fmt::appender(text);
    fmt::format_to(end, "# {}: {}, {} ({})\n", fmt::join(options.datasets, ", "),
                   format_counted(table.num_sequences(), "sequence"),
                   format_counted(table.num_pairs(), "token"),
                   is_split ? fmt::format("documents split at {} tokens", *options.max_tokens)
                            : "documents not split");
    if (const auto without = table.num_one_token_documents() + table.num_empty_documents();
        without > 0) {
        fmt::format_to(end, "# {} of one token or none left out\n",
                       format_counted(without, "document"));
    }
    for (std::int64_t sequence = 0; sequence < table.num_sequences(); ++sequence) {
        fmt::format_to(end, "{}\n", table.tokens(sequence));
    }
    return fmt::to_string(text);
}

void run_lengths(const Options& options) {
    require_positive("--max-tokens", options.max_tokens);
    require_output_place("--out", options.out);
    const std::string text = lengths_text(options);
    if (!options.out.empty()) {
        write_file_atomically(options.out, text);
    } else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
               std::fflush(stdout) != 0) {
        throw IoError(fmt::format("standard output: cannot write: {}",
                                  std::generic_category().message(errno)));
    }
}

}  // namespace

void add_data_lengths(CLI::App& parent) {
    const auto options = std::make_shared<Options>();
    CLI::App* lengths = parent.add_subcommand("lengths", kDescription);
    lengths
        ->add_option("DATASET", options->datasets,
                     "PREFIX of PREFIX.bin and PREFIX.idx, or an llm.c shard")
        ->type_name("")
        ->required();
    lengths
        ->add_option("--max-tokens", options->max_tokens,
                     "Split longer documents, as data.max_tokens does in\n"
                     "training; without it they stay whole")
        ->type_name("N")
        ->check(whole_number());
    lengths->add_option("--out", options->out, "Write to this file instead of standard output")
        ->type_name("FILE");
    lengths->footer(kExamples);
    lengths->callback([options] { run_lengths(*options); });
}

}  // namespace dcp
