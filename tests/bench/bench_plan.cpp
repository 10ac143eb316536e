// Figures of the planner on batches of real lengths: how far its plans are from the bound, what
// planning takes, and how both grow. Run by hand (scripts/bench_planner.sh); nothing is checked but
// that every plan is valid.
//
// Planning happens on one thread, one batch after the other. Times are wall clock: on a busy
// machine they say too much.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests/bench/plan_measure.hpp"
#include "tests/bench/plan_tables.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"

using namespace dcp;
using namespace dcp::bench;

namespace {

struct Options {
    std::vector<std::string> lengths;
    Source source;
    std::vector<std::string> tables{"gaps"};
    std::vector<std::string> cases;    // names; empty: all
    std::vector<std::string> efforts;  // empty: both
    std::vector<std::string> degrees;  // empty: both
    int batches = 100;
    std::string bound = "lp";
    std::string csv;
};

bool is_chosen(const std::vector<std::string>& chosen, const std::string& name) {
    return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

std::vector<Contender> chosen_efforts(const Options& options) {
    std::vector<Contender> contenders = both_efforts();
    std::erase_if(contenders, [&](const Contender& contender) {
        return !is_chosen(options.efforts, contender.name.substr(contender.name.find(' ') + 1));
    });
    return contenders;
}

void run_cases(const Options& options,
               const Source& source,
               const std::vector<Case>& cases,
               const std::vector<Contender>& contenders,
               std::vector<Measurement>& all) {
    for (const Case& what : cases) {
        if (!is_chosen(options.cases, what.name()) ||
            !is_chosen(options.degrees, what.any_degree ? "any" : "pow2")) {
            continue;
        }
        const std::vector<Measurement> measured =
            measure(source, what, options.batches, contenders, options.bound == "lp");
        fmt::print("{}", gap_table_lines(measured));
        std::fflush(stdout);
        all.insert(all.end(), measured.begin(), measured.end());
    }
}

void run(const Options& options) {
    std::vector<Measurement> all;
    for (const std::string& table : options.tables) {
        fmt::print("{}\n{}", table, gap_table_head());
        for (const std::string& lengths : options.lengths) {
            Source source = options.source;
            source.lengths = lengths;
            run_cases(options, source, table == "gaps" ? gap_cases(source.name()) : growth_cases(),
                      chosen_efforts(options), all);
        }
        fmt::print("\n");
    }
    if (!options.csv.empty()) {
        write_file_atomically(options.csv, to_csv(all));
    }
}

void add_options(CLI::App& app, Options& options) {
    app.add_option("--lengths", options.lengths, "Files of lengths, one a line")
        ->required()
        ->delimiter(',');
    app.add_option("--cost", options.source.cost, "Cost model, format dcp-cost-1")->required();
    app.add_option("--tables", options.tables, "gaps, growth")
        ->delimiter(',')
        ->check(CLI::IsMember({"gaps", "growth"}));
    app.add_option("--cases", options.cases, "Only these, such as '64 x 512,64 x 512 recompute'")
        ->delimiter(',');
    app.add_option("--degrees", options.degrees, "pow2, any or both")
        ->delimiter(',')
        ->check(CLI::IsMember({"pow2", "any"}));
    app.add_option("--efforts", options.efforts, "fast, background or both")
        ->delimiter(',')
        ->check(CLI::IsMember({"fast", "background"}));
    app.add_option("--batches", options.batches, "Of every case (100)")->check(CLI::PositiveNumber);
    app.add_option("--bound", options.bound, "slots or lp (lp, seconds a batch)")
        ->check(CLI::IsMember({"slots", "lp"}));
    app.add_option("--seed", options.source.seed, "Of the draw (0)");
    app.add_option("--max-tokens", options.source.max_tokens,
                   "Longer sequences are split (196608), as are those that a cluster cannot hold")
        ->check(CLI::PositiveNumber);
    app.add_option("--csv", options.csv, "Write every measurement to this file");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Measures the planner on batches of real lengths");
    Options options;
    add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
    } catch (const Error& error) {
        fmt::print(stderr, "bench_plan: {}\n", error.what());
        return error.exit_code();
    }
    return 0;
}
