// dcp plan: plans for imagined clusters, without training anything.
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/plan_input.hpp"
#include "apps/dcp/plan_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/json.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"
#include "core/train/cost_source.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription = R"(Plan batches for a cluster, without training

Draws batches of sequence lengths, plans each for the given number of ranks under a cost
model, and prints makespan, lower bound, imbalance and time to plan of every planner.
Command line beats the cost file. `dcp plan --check FILE` checks plans that a --json
file holds, ours or another program's.)";

constexpr const char* kExamples = R"(Examples:
  dcp plan --lengths batch.txt --cost configs/costs/flexsp-gpt-7b.yaml --ranks 64
  dcp plan --dataset data/manpages --cost configs/costs/flexsp-gpt-7b.yaml --ranks 16
      --batch-sequences 128 --batches 5 --compare bucket,packed,dcp --json plans.jsonl
  dcp plan --lengths videos.txt --cost configs/clusters/h200.yaml
      --model configs/transformer-2d-1.2b.yaml --ranks 32
  dcp plan --check plans.jsonl --cost configs/costs/flexsp-gpt-7b.yaml

Exit status: 0 done, 2 bad input, a sequence that fits nowhere, or a broken plan.)";

struct Options {
    BatchOptions batch;
    std::string cost;
    std::string model;
    std::optional<int> ranks;
    std::optional<int> ranks_per_node;
    std::string planner = "dcp";
    std::string effort = "background";
    std::vector<std::string> compare;
    std::string degrees;
    std::string recompute;
    std::string json;
    std::string trace;
    std::string check;
};

// Everything but the sequences.
plan::Problem problem_of(const Options& options, const CostChoice& choice, int ranks) {
    plan::Problem problem =
        train::planning_problem(choice.cost(ranks, options.ranks_per_node), ranks);
    if (!options.degrees.empty()) {
        problem.degrees = train::parse_degrees(options.degrees, ranks, "--degrees");
    }
    if (!options.recompute.empty()) {
        problem.may_recompute = options.recompute == "yes";
    }
    return problem;
}

// Checks every plan of a file; PlanError at the first that breaks a promise.
void check_file(const Options& options, const CostChoice& choice) {
    std::ifstream file(options.check);
    if (!file) {
        throw DataError(fmt::format("{}: no such file, or it cannot be read", options.check));
    }
    std::string line;
    std::string name;
    int plans = 0;
    for (int number = 1; std::getline(file, line); ++number) {
        if (line.empty()) {
            continue;
        }
        try {
            const plan::PlanFile read = plan::from_json(line);
            Options here = options;
            here.ranks_per_node = read.ranks_per_node;
            plan::Problem problem = problem_of(here, choice, read.ranks);
            problem.sequences = read.sequences;
            choice.weigh(problem, options.check);
            plan::check_problem(problem);
            plan::validate(problem, read.plan);
            name = problem.cost->name();
        } catch (const PlanError& error) {
            throw PlanError(fmt::format("{}:{}: {}", options.check, number, error.what()));
        }
        ++plans;
    }
    fmt::print("{}: {} plans, all valid under {}\n", options.check, plans, name);
}

PlanRecord planned(const plan::Problem& problem,
                   const std::string& planner,
                   std::int64_t batch,
                   const Options& options,
                   double bound_seconds) {
    using Clock = std::chrono::steady_clock;
    const std::unique_ptr<plan::Planner> maker = plan::make_planner(
        planner,
        {.seed = options.batch.seed,
         .effort = options.effort == "fast" ? plan::Effort::kFast : plan::Effort::kBackground});
    const Clock::time_point start = Clock::now();
    plan::Plan made = maker->plan(problem);
    const std::chrono::duration<double> spent = Clock::now() - start;
    made.lower_bound_seconds = bound_seconds;
    plan::validate(problem, made);
    return {.planner = planner,
            .batch = batch,
            .problem = problem,
            .plan = std::move(made),
            .plan_seconds = spent.count()};
}

// The picture is of the shortest plan of the first batch.
void print_report(const std::vector<PlanRecord>& records) {
    const PlanRecord* shown = &records.front();
    for (const PlanRecord& record : records) {
        if (record.batch == 0 && record.plan.makespan_seconds < shown->plan.makespan_seconds) {
            shown = &record;
        }
    }
    fmt::print("{}\n{}\n{}", plan_table(records), plan_histograms(records), plan_picture(*shown));
}

void run(const Options& options) {
    const CostChoice choice(options.cost, options.model);
    if (!options.check.empty()) {
        check_file(options, choice);
        return;
    }
    require_positive("--ranks", options.ranks);
    require_positive("--ranks-per-node", options.ranks_per_node);
    require_positive("--batch-sequences", options.batch.batch_sequences);
    require_positive("--batch-tokens", options.batch.batch_tokens);
    require_positive("--batches", options.batch.batches);
    require_positive("--max-tokens", options.batch.max_tokens);
    plan::Problem problem = problem_of(options, choice, options.ranks.value());
    const std::vector<std::string> planners =
        options.compare.empty() ? std::vector<std::string>{options.planner} : options.compare;
    for (const std::string& planner : planners) {
        plan::make_planner(planner);  // an unknown name is known before an hour of planning
    }
    std::vector<PlanRecord> records;
    std::string lines;
    const auto batches = plan_batches(options.batch);
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        problem.sequences = batches[batch];
        choice.weigh(problem, options.batch.lengths);
        const double bound = plan::lower_bounds(problem).best_seconds();
        for (const std::string& planner : planners) {
            records.push_back(
                planned(problem, planner, static_cast<std::int64_t>(batch), options, bound));
            const PlanRecord& record = records.back();
            lines += plan::to_json(problem, record.plan,
                                   {.planner = planner,
                                    .cost = std::string(problem.cost->name()),
                                    .batch = record.batch,
                                    .seed = options.batch.seed,
                                    .plan_seconds = record.plan_seconds}) +
                     "\n";
        }
    }
    print_report(records);
    if (!options.json.empty()) {
        write_file_atomically(options.json, lines);
    }
    if (!options.trace.empty()) {
        write_file_atomically(options.trace, plan_trace(records));
    }
}

void add_batch_options(CLI::App& command, Options& options) {
    CLI::Option* lengths =
        command.add_option("--lengths", options.batch.lengths,
                           "Sequence lengths, one a line (`dcp data lengths` writes such a\n"
                           "file); without a batch size the whole file is one batch");
    lengths->type_name("FILE");
    CLI::Option* dataset = command.add_option("--dataset", options.batch.dataset,
                                              "Lengths of a dataset's documents instead");
    dataset->type_name("PREFIX")->excludes(lengths);
    CLI::Option* sequences = command.add_option("--batch-sequences", options.batch.batch_sequences,
                                                "Sequences of a batch");
    sequences->type_name("B");
    command
        .add_option("--batch-tokens", options.batch.batch_tokens,
                    "Tokens of a batch at most, instead")
        ->type_name("T")
        ->excludes(sequences);
    command.add_option("--batches", options.batch.batches, "How many batches (1)")->type_name("K");
    command.add_option("--seed", options.batch.seed, "Of the draw and of planners that draw (0)")
        ->type_name("S");
    command.add_option("--max-tokens", options.batch.max_tokens, "Split longer sequences")
        ->type_name("L");
    CLI::Option* check = command.add_option("--check", options.check,
                                            "Check the plans of a --json file instead of planning");
    check->type_name("FILE")->excludes(lengths)->excludes(dataset);
}

void add_plan_options(CLI::App& command, Options& options) {
    command
        .add_option("--cost", options.cost,
                    "Cost model: constants (dcp-cost-1), a profile (dcp-profile-1)\n"
                    "or a cluster (dcp-cluster-1, with --model)")
        ->type_name("FILE")
        ->required();
    command
        .add_option("--model", options.model,
                    "The model that a cluster is to train: a configuration")
        ->type_name("CONFIG");
    command.add_option("--ranks", options.ranks, "Ranks of the cluster")->type_name("N");
    command
        .add_option("--ranks-per-node", options.ranks_per_node,
                    "Ranks of a node (what the cost file says)")
        ->type_name("M");
    CLI::Option* planner =
        command.add_option("--planner", options.planner, "The planner to use (dcp)");
    planner->type_name("NAME");
    command.add_option("--compare", options.compare, "Several planners, side by side")
        ->type_name("A,B,...")
        ->delimiter(',')
        ->excludes(planner);
    command
        .add_option("--effort", options.effort,
                    "How long the planner dcp may search: fast or background\n"
                    "(background)")
        ->type_name("fast|background")
        ->check(CLI::IsMember({"fast", "background"}));
    command
        .add_option("--degrees", options.degrees,
                    "Allowed SP degrees: any, pow2, or a list such as 1,2,4\n"
                    "(what the cost file says)")
        ->type_name("LIST");
    command
        .add_option("--recompute", options.recompute,
                    "Whether layers may recompute activations: yes or no (what the\n"
                    "cost file says)")
        ->type_name("yes|no")
        ->check(CLI::IsMember({"yes", "no"}));
    command.add_option("--json", options.json, "Write every plan as a line of dcp-plan-1")
        ->type_name("FILE");
    command.add_option("--trace", options.trace, "Write the schedules for ui.perfetto.dev")
        ->type_name("FILE");
}

void require_what_to_plan(const Options& options) {
    if (!options.check.empty()) {
        return;
    }
    if (options.batch.lengths.empty() && options.batch.dataset.empty()) {
        throw ConfigError("dcp plan needs --lengths FILE or --dataset PREFIX (or --check FILE)");
    }
    if (!options.ranks) {
        throw ConfigError("dcp plan needs --ranks N");
    }
}

}  // namespace

void add_plan_command(CLI::App& app) {
    const auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("plan", kDescription);
    add_batch_options(*command, *options);
    add_plan_options(*command, *options);
    command->footer(kExamples);
    command->callback([options] {
        require_what_to_plan(*options);
        run(*options);
    });
}

}  // namespace dcp
