// dcp data synth: a dataset of documents with the lengths of a distribution.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/option_checks.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/data/synth.hpp"
#include "core/lengths/stream.hpp"
#include "core/train/stop_signal.hpp"

namespace dcp {
namespace {

constexpr const char* kDescription = R"(Make a dataset whose lengths follow a distribution

The documents of a dataset or of text files are laid end to end, again from the start
when they end, and cut anew: sequence i of the new dataset has as many tokens as line i
of `dcp data sample` with the same distribution and seed. So a run can be tried on the
lengths of another corpus, or on lengths that drift, with text that can be learnt.
Documents that were cut in the middle start and end there; nothing marks it.)";

constexpr const char* kExamples = R"(Examples:
  dcp data synth --distribution wikipedia:max=8192 --documents 10000 \
      --from data/manpages --out data/like-wikipedia
  dcp data synth --distribution short:min=64,max=4096 --documents 500 \
      --from /usr/share/man/man1 --out data/short

Exit status: 0 done, 2 the text or the lengths are wrong, 3 the dataset cannot be written,
or a signal ended it.)";

struct Options {
    std::string distribution;
    std::vector<std::string> from;
    std::string out;
    std::int64_t documents = 0;
    std::uint64_t seed = 0;
};

std::vector<std::int64_t> wanted_pairs(const Options& options) {
    const auto distribution = lengths::parse_distribution(options.distribution);
    if (distribution->is_video()) {
        throw ConfigError(
            fmt::format("--distribution {}: videos cannot be made of text; take one of TOKENS",
                        options.distribution));
    }
    std::vector<std::int64_t> pairs;
    for (std::int64_t document = 0; document < options.documents; ++document) {
        pairs.push_back(distribution->at(options.seed, document).tokens);
    }
    return pairs;
}

void run_synth(const Options& options) {
    require_positive("--documents", options.documents);
    std::string prefix = options.out;
    if (prefix.ends_with(".bin") || prefix.ends_with(".idx")) {
        prefix.resize(prefix.size() - 4);
    }
    const std::vector<std::int64_t> pairs = wanted_pairs(options);
    const train::StopSignal stop(/*speaks=*/false);
    const data::SynthReport report =
        data::synthesize(prefix, options.from, pairs, [&](std::int64_t finished) {
            if (stop.requested() && finished < options.documents) {
                throw IoError(
                    fmt::format("{}: interrupted by {}; nothing was written", prefix, stop.name()));
            }
        });
    fmt::print("{}: {}, {} from a text of {}, gone through {:.2f} times\n", prefix,
               format_counted(report.num_documents, "document"),
               format_counted(report.num_tokens, "token"),
               format_counted(report.source_tokens, "token"), report.passes);
}

}  // namespace

void add_data_synth(CLI::App& parent) {
    const auto options = std::make_shared<Options>();
    CLI::App* synth = parent.add_subcommand("synth", kDescription);
    synth
        ->add_option("--distribution", options->distribution,
                     "Of the lengths; `dcp data sample --help` lists them")
        ->type_name("NAME")
        ->required();
    synth->add_option("--documents", options->documents, "How many documents")
        ->type_name("N")
        ->check(whole_number())
        ->required();
    synth
        ->add_option("--from", options->from,
                     "The text: a dataset, or files and folders (.gz is\n"
                     "decompressed)")
        ->type_name("PATH ...")
        ->required();
    synth
        ->add_option("--out", options->out,
                     "The dataset to write, PREFIX.bin and PREFIX.idx; an older\n"
                     "one is replaced when the new one is complete")
        ->type_name("PREFIX")
        ->required();
    synth->add_option("--seed", options->seed, "Of the draw (0)")
        ->type_name("S")
        ->check(seed_number());
    synth->footer(kExamples);
    synth->callback([options] { run_synth(*options); });
}

}  // namespace dcp
