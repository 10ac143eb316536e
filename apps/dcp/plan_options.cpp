#include "apps/dcp/plan_options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/data_commands.hpp"
#include "apps/dcp/option_checks.hpp"
#include "core/base/errors.hpp"
#include "core/lengths/stream.hpp"
#include "core/plan/topology.hpp"

namespace dcp {

namespace {

constexpr std::int64_t kMostBatches = 1'000'000;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 26;

void require_at_most(const char* option, std::int64_t value, std::int64_t most) {
    if (value > most) {
        throw ConfigError(fmt::format("{} {}: must be at most {}", option, value, most));
    }
}

void add_batch_options(CLI::App& command, PlanOptions& options) {
    CLI::Option* lengths =
        command.add_option("--lengths", options.batch.lengths,
                           "Sequence lengths, one a line (`dcp data lengths` writes such a\n"
                           "file); without a batch size the whole file is one batch");
    lengths->type_name("FILE");
    CLI::Option* dataset = command.add_option("--dataset", options.batch.dataset,
                                              "Lengths of a dataset's documents instead");
    dataset->type_name("PREFIX")->excludes(lengths);
    command
        .add_option("--distribution", options.batch.distribution,
                    "Draw lengths from a distribution instead: wikipedia, short,\n"
                    "lognormal:mean=2000, ... (`dcp data sample --help` lists them)")
        ->type_name("NAME")
        ->excludes(lengths)
        ->excludes(dataset);
    CLI::Option* sequences =
        command.add_option("--batch-sequences", options.batch.batch_sequences,
                           "Sequences of a batch: of a file or dataset all in a random\n"
                           "order, then all again in another, as training draws them; so\n"
                           "more than there are gives some more than once");
    sequences->type_name("B")->check(whole_number());
    command
        .add_option("--batch-tokens", options.batch.batch_tokens,
                    "Tokens of a batch at most, instead (a longer sequence is a\n"
                    "batch of its own)")
        ->type_name("T")
        ->check(whole_number())
        ->excludes(sequences);
    command.add_option("--batches", options.batch.batches, "How many batches (1)")
        ->type_name("K")
        ->check(whole_number());
    command.add_option("--seed", options.batch.seed, "Of the draw and of planners that draw (0)")
        ->type_name("S")
        ->check(seed_number());
    command.add_option("--max-tokens", options.batch.max_tokens, "Split longer sequences")
        ->type_name("L")
        ->check(whole_number());
    CLI::Option* check = command.add_option("--check", options.check,
                                            "Check the plans of a --json file instead of planning");
    check->type_name("FILE");
}

// A check plans nothing, so what says how to plan would be ignored.
void exclude_from_check(CLI::App& command) {
    for (const char* option :
         {"--lengths", "--dataset", "--distribution", "--batch-sequences", "--batch-tokens",
          "--batches", "--seed", "--max-tokens", "--ranks", "--planner", "--compare", "--effort",
          "--bound", "--batch-mode", "--json", "--trace"}) {
        command.get_option("--check")->excludes(command.get_option(option));
    }
}

void add_plan_options(CLI::App& command, PlanOptions& options) {
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
    command.add_option("--ranks", options.ranks, "Ranks of the cluster")
        ->type_name("N")
        ->check(whole_number());
    command
        .add_option("--ranks-per-node", options.ranks_per_node,
                    "Ranks of a node (what the cost file says)")
        ->type_name("M")
        ->check(whole_number());
    CLI::Option* planner =
        command.add_option("--planner", options.planner, "The planner to use (dcp)");
    planner->type_name("NAME");
    command
        .add_option_function<std::string>(
            "--compare",
            [&options](const std::string& list) {
                options.compare = elements_of("--compare", list);
            },
            "Several planners, side by side")
        ->type_name("A,B,...")
        ->excludes(planner);
    command
        .add_option("--effort", options.effort,
                    "How long the planner dcp may search: fast or background\n"
                    "(background)")
        ->type_name("fast|background")
        ->check(CLI::IsMember({"fast", "background"}));
    command
        .add_option("--bound", options.bound,
                    "The lower bound to report: slots (milliseconds), or lp\n"
                    "(stronger, seconds a batch) (slots)")
        ->type_name("slots|lp")
        ->check(CLI::IsMember({"slots", "lp"}));
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
    command
        .add_option("--memory-budget", options.memory_budget,
                    "Bytes of a rank, such as 12GiB (what the cost file says)")
        ->type_name("BYTES");
    command
        .add_option_function<std::string>(
            "--rank-speed",
            [&options](const std::string& list) {
                options.rank_speeds = numbers_of("--rank-speed", list);
            },
            "Speed of every rank, 1 = what the cost model says, from 0.001\n"
            "to 1000: computation takes as long as the slowest rank of a\n"
            "group needs")
        ->type_name("S,S,...");
    command
        .add_option("--step-mode", options.step_mode,
                    "independent; rounds: all ranks take equally many steps together\n"
                    "(fully sharded parameters); rounds-one-depth: and recompute alike\n"
                    "in a round (independent)")
        ->type_name("MODE")
        ->check(CLI::IsMember({"independent", "rounds", "rounds-one-depth"}));
    command
        .add_option("--batch-mode", options.batch_mode,
                    "fixed; elastic: time that ranks have left is filled with the\n"
                    "sequences that come next, as many as find room (fixed)")
        ->type_name("fixed|elastic")
        ->check(CLI::IsMember({"fixed", "elastic"}));
    command.add_option("--json", options.json, "Write every plan as a line of dcp-plan-1")
        ->type_name("FILE");
    command.add_option("--trace", options.trace, "Write the schedules for ui.perfetto.dev")
        ->type_name("FILE");
}

}  // namespace

void add_options(CLI::App& command, PlanOptions& options) {
    add_batch_options(command, options);
    add_plan_options(command, options);
    exclude_from_check(command);
}

void require_what_to_plan(const PlanOptions& options) {
    if (!options.check.empty()) {
        return;
    }
    if (options.batch.lengths.empty() && options.batch.dataset.empty() &&
        options.batch.distribution.empty()) {
        throw ConfigError(
            "dcp plan needs --lengths FILE, --dataset PREFIX or --distribution NAME (or --check "
            "FILE)");
    }
    if (!options.ranks) {
        throw ConfigError("dcp plan needs --ranks N");
    }
}

void check_limits(const PlanOptions& options) {
    require_positive("--ranks", options.ranks);
    require_positive("--ranks-per-node", options.ranks_per_node);
    require_positive("--batch-sequences", options.batch.batch_sequences);
    require_positive("--batch-tokens", options.batch.batch_tokens);
    require_positive("--batches", options.batch.batches);
    require_positive("--max-tokens", options.batch.max_tokens);
    require_at_most("--ranks", options.ranks.value(), plan::kMostRanks);
    require_at_most("--ranks-per-node", options.ranks_per_node.value_or(1), plan::kMostRanks);
    require_at_most("--batches", options.batch.batches, kMostBatches);
    require_at_most("--batch-sequences", options.batch.batch_sequences.value_or(1),
                    lengths::kMostBatchSequences);
    require_at_most("--batches x --batch-sequences",
                    options.batch.batches * options.batch.batch_sequences.value_or(1),
                    kMostSequences);
}

}  // namespace dcp
