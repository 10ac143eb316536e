// Figures of the planner on batches of real lengths: how far its plans are from the bound, what
// planning takes, and how both grow. Run by hand (scripts/bench_planner.sh); nothing is checked but
// that every plan is valid.
//
// Planning happens on one thread, one batch after the other. Times are wall clock: on a busy
// machine they say too much.
#include <algorithm>
#include <cstdio>
#include <map>
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
    Batches batches;
    std::string bound = "lp";
    std::string csv;
    FlexSpPlanner::Options flexsp;
};

bool is_chosen(const std::vector<std::string>& chosen, const std::string& name) {
    return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

// A table: what it plans, who does, and how it is printed.
struct Table {
    std::vector<Case> cases;
    std::vector<Contender> contenders;
    bool with_lp = false;
    std::string (*head)();
    std::string (*lines)(const std::vector<Measurement>&);
};

std::vector<Contender> chosen_efforts(const Options& options) {
    std::vector<Contender> contenders;
    if (is_chosen(options.efforts, "fast")) {
        contenders.push_back(ours(plan::Effort::kFast));
    }
    if (is_chosen(options.efforts, "background")) {
        contenders.push_back(ours(plan::Effort::kBackground));
    }
    return contenders;
}

Table table_of(const std::string& name, const Options& options, const std::string& lengths) {
    if (name == "growth") {
        return {.cases = growth_cases(),
                .contenders = chosen_efforts(options),
                .head = gap_table_head,
                .lines = gap_table_lines};
    }
    const bool with_lp = options.bound == "lp";
    if (name == "rivals") {
        std::vector<Contender> contenders{ours(plan::Effort::kBackground),
                                          ours(plan::Effort::kFast)};
        for (const Contender& rival : rivals(options.flexsp)) {
            contenders.push_back(rival);
        }
        for (const char* own : {"bucket", "packed", "dcp-inter", "dcp-intra"}) {
            contenders.push_back(own_planner(own));
        }
        return {.cases = {{.ranks = 64, .sequences = 512, .any_degree = true},
                          {.ranks = 64, .sequences = 512}},
                .contenders = contenders,
                .with_lp = with_lp,
                .head = rival_table_head,
                .lines = rival_table_lines};
    }
    if (name == "blame") {
        return {.cases = gap_cases(lengths),
                .contenders = {ours(plan::Effort::kBackground), longer_search()},
                .with_lp = true,
                .head = blame_table_head,
                .lines = blame_table_lines};
    }
    return {.cases = gap_cases(lengths),
            .contenders = chosen_efforts(options),
            .with_lp = with_lp,
            .head = gap_table_head,
            .lines = gap_table_lines};
}

void write_csv(const Options& options, const std::vector<Measurement>& all) {
    if (!options.csv.empty()) {
        write_file_atomically(options.csv, to_csv(all));
    }
}

void run_table(const std::string& name, const Options& options, std::vector<Measurement>& all) {
    for (const std::string& lengths : options.lengths) {
        Source source = options.source;
        source.lengths = lengths;
        const Table table = table_of(name, options, source.name());
        if (&lengths == &options.lengths.front()) {
            fmt::print("{}\n{}", name, table.head());
        }
        for (const Case& what : table.cases) {
            if (!is_chosen(options.cases, what.name()) ||
                !is_chosen(options.degrees, what.any_degree ? "any" : "pow2")) {
                continue;
            }
            std::vector<Measurement> measured;
            measure(source, what, options.batches, table.contenders, table.with_lp,
                    [&](const std::vector<Measurement>& of_batch) {
                        measured.insert(measured.end(), of_batch.begin(), of_batch.end());
                        all.insert(all.end(), of_batch.begin(), of_batch.end());
                        write_csv(options, all);  // a run of hours may be cut short
                    });
            fmt::print("{}", table.lines(measured));
            std::fflush(stdout);
        }
    }
    fmt::print("\n");
}

// A shorter plan of anybody else than the best of ours on the same batch would be news.
void print_beaten(const std::vector<Measurement>& all) {
    std::map<std::string, double> best;
    const auto key = [](const Measurement& m) {
        return fmt::format("{} {} {} {}", m.lengths, m.what.name(), m.what.any_degree, m.batch);
    };
    for (const Measurement& m : all) {
        if (m.planner.starts_with("dcp ")) {
            const auto place = best.emplace(key(m), m.makespan).first;
            place->second = std::min(place->second, m.makespan);
        }
    }
    int others = 0;
    int shorter = 0;
    for (const Measurement& m : all) {
        if (!m.planner.starts_with("dcp ")) {
            ++others;
            shorter += m.makespan < best.at(key(m)) ? 1 : 0;
        }
    }
    if (others > 0) {
        fmt::print("plans of other planners: {}, shorter than dcp's: {}\n", others, shorter);
    }
}

void run(const Options& options) {
    std::vector<Measurement> all;
    for (const std::string& table : options.tables) {
        run_table(table, options, all);
    }
    print_beaten(all);
}

void add_options(CLI::App& app, Options& options) {
    app.add_option("--lengths", options.lengths, "Files of lengths, one a line")
        ->required()
        ->delimiter(',');
    app.add_option("--cost", options.source.cost, "Cost model: any file that dcp plan --cost takes")
        ->required();
    app.add_option("--tables", options.tables, "gaps, blame, rivals, growth (gaps)")
        ->delimiter(',')
        ->check(CLI::IsMember({"gaps", "blame", "rivals", "growth"}));
    app.add_option("--model", options.source.model,
                   "Configuration with the model, where --cost describes a cluster");
    app.add_option("--flexsp-seconds", options.flexsp.limit_seconds,
                   "Limit of each of FlexSP's programs (5)");
    app.add_option("--flexsp-chunk-counts", options.flexsp.chunk_counts,
                   "Numbers of chunks that FlexSP tries (5)");
    app.add_option("--cases", options.cases, "Only these, such as '64 x 512,64 x 512 recompute'")
        ->delimiter(',');
    app.add_option("--degrees", options.degrees, "pow2, any or both")
        ->delimiter(',')
        ->check(CLI::IsMember({"pow2", "any"}));
    app.add_option("--efforts", options.efforts, "fast, background or both")
        ->delimiter(',')
        ->check(CLI::IsMember({"fast", "background"}));
    app.add_option("--batches", options.batches.count, "Of every case (100)")
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--first-batch", options.batches.first, "Leaves out those before it (0)")
        ->check(CLI::Range(0, 1'000'000));
    app.add_option("--bound", options.bound, "slots or lp (lp, seconds a batch)")
        ->check(CLI::IsMember({"slots", "lp"}));
    app.add_option("--seed", options.source.seed, "Of the draw (0)");
    app.add_option("--max-tokens", options.source.max_tokens,
                   "Longer sequences are split (196608), as are those that a cluster cannot hold")
        ->check(CLI::PositiveNumber);
    app.add_option("--csv", options.csv, "Write every measurement to this file, batch by batch");
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
