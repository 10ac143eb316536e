// dcp data sample: lengths drawn from a distribution, as `dcp plan --lengths` reads them.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/option_checks.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/data/length_stats.hpp"
#include "core/lengths/stream.hpp"

namespace dcp {
namespace {

constexpr const char* kDescription = R"(Print lengths drawn from a distribution

One sequence a line: its tokens, or FRAMESxTOKENS_PER_FRAME of a video. The same name,
keys and seed give the same lengths on every machine; a longer sample begins with the
shorter one. Lines that start with # are comments: a summary. `dcp plan --lengths`
reads the file; `dcp plan --distribution` draws the same sequences itself.)";

std::string examples() {
    std::string text =
        R"(Distributions (NAME or NAME:key=value,key=value; keys with their defaults):
)";
    for (const lengths::DistributionInfo& info : lengths::known_distributions()) {
        text += fmt::format("  {}{}{}\n      {}\n", info.name, info.keys.empty() ? "" : ":",
                            info.keys, info.meaning);
    }
    return text + R"(  A@0.7+B@0.3
      a mixture: weights are shares of the sequences, on any scale
  A~20000~B
      a drift from A to B during the first 20000 sequences

Examples:
  dcp data sample wikipedia --count 512 --out batch.lengths
  dcp data sample lognormal:mean=2000,max=65536@0.9+long@0.1 --seed 3

Exit status: 0 done, 2 there is no such distribution, 3 the lengths cannot be written.)";
}

struct Options {
    std::string distribution;
    std::int64_t count = 100;
    std::uint64_t seed = 0;
    std::optional<std::int64_t> max_tokens;
    std::string out;
};

std::string summary(const Options& options, const std::vector<lengths::Item>& items) {
    std::vector<std::int64_t> tokens;
    tokens.reserve(items.size());
    for (const lengths::Item& item : items) {
        tokens.push_back(item.length.tokens);
    }
    const data::LengthStats stats = data::summarize(std::move(tokens));
    return fmt::format(
        "# {}, seed {}: {}, {}\n# mean {:.0f}, median {:.0f}, 90 % {:.0f}, 99 % "
        "{:.0f}, longest {}\n",
        options.distribution, options.seed, format_counted(stats.count, "sequence"),
        format_counted(stats.sum, "token"), stats.mean, stats.median, stats.p90, stats.p99,
        stats.max);
}

void run_sample(const Options& options) {
    require_positive("--count", options.count);
    require_positive("--max-tokens", options.max_tokens);
    require_output_place("--out", options.out);
    const auto stream = lengths::drawn(lengths::parse_distribution(options.distribution),
                                       options.seed, options.max_tokens);
    const auto items =
        lengths::next_batch(*stream, {.sequences = options.count, .tokens = {}}, options.count);
    std::string text = summary(options, items);
    for (const lengths::Item& item : items) {
        text += lengths::to_string(item.length) + "\n";
    }
    if (!options.out.empty()) {
        write_file_atomically(options.out, text);
    } else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
               std::fflush(stdout) != 0) {
        throw IoError(fmt::format("standard output: cannot write: {}",
                                  std::generic_category().message(errno)));
    }
}

}  // namespace

void add_data_sample(CLI::App& parent) {
    const auto options = std::make_shared<Options>();
    CLI::App* sample = parent.add_subcommand("sample", kDescription);
    sample->add_option("DISTRIBUTION", options->distribution, "Its name, with keys or without")
        ->type_name("")
        ->required();
    sample->add_option("--count", options->count, "How many sequences (100)")
        ->type_name("N")
        ->check(whole_number());
    sample->add_option("--seed", options->seed, "Of the draw (0)")
        ->type_name("S")
        ->check(seed_number());
    sample->add_option("--max-tokens", options->max_tokens, "Cut longer sequences into pieces")
        ->type_name("L")
        ->check(whole_number());
    sample->add_option("--out", options->out, "Write to this file instead of standard output")
        ->type_name("FILE");
    sample->footer(examples());
    sample->callback([options] { run_sample(*options); });
}

}  // namespace dcp
