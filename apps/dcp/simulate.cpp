// dcp simulate: runs in virtual time on a described cluster.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/plan_input.hpp"
#include "apps/dcp/simulate_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/config/simulate_file.hpp"
#include "core/plan/hardware_model.hpp"
#include "core/sim/fixed_groups.hpp"
#include "core/sim/planners.hpp"
#include "core/sim/run.hpp"
#include "core/train/cost_source.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription = R"(Simulate training on a described cluster

Draws batch after batch, plans each, and replays the plans in virtual time on as many
ranks as wanted: steps as the cost model predicts them (with noise and stragglers if the
configuration asks for them), reduction of gradients and optimizer after each iteration.
Planning counts only where it takes longer than the iteration it hides behind. Several
planners and numbers of ranks side by side; docs/simulate.md has the keys. Everything
that is printed is simulated.)";

constexpr const char* kExamples = R"(Examples:
  dcp simulate configs/simulate/first.yaml
  dcp simulate configs/simulate/first.yaml --set cluster.ranks=[8,64,512] --csv curve.csv

Exit status: 0 done, 2 bad input or a sequence that fits nowhere, 3 the results cannot be
written, or there is no memory left.)";

struct Options {
    std::string config;
    std::vector<std::string> overrides;
    std::string csv;
    std::string json;
};

// Where sequences come from: the same for every run of the simulation.
struct Source {
    lengths::DistributionPtr distribution;  // or
    std::vector<lengths::Length> all;
    std::int64_t longest_tokens = 0;
};

Source open_source(const config::SimulateFile& config) {
    Source source;
    if (!config.data.distribution.empty()) {
        source.distribution = lengths::parse_distribution(config.data.distribution);
        const std::int64_t longest = source.distribution->longest().tokens;
        source.longest_tokens = std::min(longest, config.data.max_tokens.value_or(longest));
        return source;
    }
    if (!config.data.dataset.empty()) {
        source.all = dataset_lengths(config.data.dataset, config.data.max_tokens,
                                     config.data.validation_documents);
    } else {
        source.all = read_lengths(config.data.lengths);
        if (config.data.max_tokens) {
            source.all = lengths::split(source.all, *config.data.max_tokens);
        }
    }
    for (const lengths::Length& length : source.all) {
        source.longest_tokens = std::max(source.longest_tokens, length.tokens);
    }
    return source;
}

std::unique_ptr<lengths::Stream> stream_of(const config::SimulateFile& config,
                                           const Source& source) {
    const auto seed = static_cast<std::uint64_t>(config.run.seed);
    if (source.distribution) {
        return lengths::drawn(source.distribution, seed, config.data.max_tokens);
    }
    return config.data.shuffle ? lengths::shuffled(source.all, seed)
                               : lengths::repeated(source.all);
}

lengths::BatchSize batch_size(const config::SimulateFile& config, int ranks) {
    lengths::BatchSize size{.sequences = config.batch.sequences, .tokens = config.batch.tokens};
    if (config.batch.sequences_per_rank) {
        size.sequences = *config.batch.sequences_per_rank * ranks;
    }
    if (config.batch.tokens_per_rank) {
        size.tokens = *config.batch.tokens_per_rank * ranks;
    }
    if (size.sequences.value_or(0) > lengths::kMostBatchSequences) {
        throw ConfigError(fmt::format("batch: {} sequences on {}, and a batch may have {}",
                                      *size.sequences, format_counted(ranks, "rank"),
                                      lengths::kMostBatchSequences));
    }
    return size;
}

// A reduction of the gradients and a gather of the parameters, each of which passes all but a
// rank's own share through it.
double once_seconds(const config::SimulateFile::Iteration& iteration, int ranks) {
    double seconds = iteration.optimizer_seconds;
    if (ranks > 1 && iteration.reduce_bytes > 0) {
        seconds += 2 * (iteration.reduce_latency +
                        iteration.reduce_bytes * (ranks - 1) / ranks / iteration.reduce_bandwidth);
    }
    return seconds;
}

// Everything but the sequences.
plan::Problem problem_of(const config::SimulateFile& config,
                         const CostChoice& choice,
                         bool is_video,
                         int ranks) {
    std::optional<int> ranks_per_node;
    if (config.cluster.ranks_per_node) {
        ranks_per_node = static_cast<int>(*config.cluster.ranks_per_node);
    }
    const train::PlanningCost cost = choice.cost(ranks, ranks_per_node);
    if (cost.dimensions == (is_video ? 1 : 2)) {
        throw ConfigError(fmt::format("{} takes {}, and the sequences are {}", cost.model->name(),
                                      is_video ? "texts" : "videos (FRAMESxTOKENS_PER_FRAME)",
                                      is_video ? "videos (FRAMESxTOKENS_PER_FRAME)" : "texts"));
    }
    plan::Problem problem = train::planning_problem(cost, ranks);
    if (!config.planner.degrees.empty()) {
        problem.degrees = train::parse_degrees(config.planner.degrees, ranks, "planner.degrees");
    }
    problem.step_mode = plan::parse_step_mode(config.planner.step_mode);
    if (config.cluster.memory_budget) {
        problem.memory_budget_bytes = static_cast<double>(*config.cluster.memory_budget);
    }
    if (!config.planner.recompute.empty()) {
        problem.may_recompute = config.planner.recompute == "yes";
    }
    return problem;
}

// What utilisation is counted in; only a description of the hardware knows it.
void add_utilization(sim::RunSettings& settings) {
    const auto hardware =
        std::dynamic_pointer_cast<const plan::HardwareModel>(settings.problem.cost);
    if (hardware != nullptr) {
        settings.training_flops = [hardware](const plan::Sequence& sequence) {
            return hardware->training_flops(sequence);
        };
        settings.peak_flops = hardware->cluster().peak_flops;
    }
}

sim::RunSettings settings_of(const config::SimulateFile& config,
                             const Source& source,
                             plan::Problem problem) {
    const int ranks = problem.topology.ranks;
    sim::RunSettings settings;
    settings.problem = std::move(problem);
    settings.problem.longest_tokens = source.longest_tokens;
    settings.batch = batch_size(config, ranks);
    settings.is_elastic = config.batch.mode == "elastic";
    settings.iterations = config.run.iterations.value_or(std::numeric_limits<std::int64_t>::max());
    if (config.run.sequences) {
        settings.sequences = *config.run.sequences;
    } else if (config.run.epochs) {
        settings.sequences = *config.run.epochs * static_cast<std::int64_t>(source.all.size());
    }
    settings.once_seconds = once_seconds(config.iteration, ranks);
    if (!std::isfinite(settings.once_seconds)) {
        throw ConfigError(
            "iteration: reduction and optimizer take for ever; give bytes and bandwidth in bytes "
            "and "
            "bytes a second");
    }
    settings.noise = {.spread = config.noise.step,
                      .seed = static_cast<std::uint64_t>(config.run.seed)};
    settings.stragglers = {.share = config.stragglers.share,
                           .slowdown = config.stragglers.slowdown,
                           .is_known = config.stragglers.known,
                           .is_moving = config.stragglers.moving};
    settings.plan_seconds = config.planner.plan_seconds;
    add_utilization(settings);
    return settings;
}

void require_reduction_once(const config::SimulateFile& config, const plan::CostModel& cost) {
    const bool is_given =
        config.iteration.reduce_bytes > 0 || config.iteration.optimizer_seconds > 0;
    if (is_given && cost.per_iteration_seconds() > 0) {
        throw ConfigError(
            fmt::format("{} has reduction and optimizer in it already ({} an iteration); leave out "
                        "the section `iteration`",
                        config.cluster.cost, format_seconds(cost.per_iteration_seconds())));
    }
}

std::unique_ptr<plan::Planner> planner_of(const config::SimulateFile& config,
                                          const std::string& name) {
    if (name == sim::FixedGroupsPlanner::kName && config.planner.step_mode != "independent") {
        throw ConfigError(
            fmt::format("planner.names: {} plans independent steps only, and planner.step_mode is "
                        "{}",
                        name, config.planner.step_mode));
    }
    return sim::make_planner(
        name, {.seed = static_cast<std::uint64_t>(config.run.seed),
               .effort = config.planner.effort == "fast" ? plan::Effort::kFast
                                                         : plan::Effort::kBackground});
}

sim::RunReport run_one(const config::SimulateFile& config,
                       const Source& source,
                       const sim::RunSettings& settings,
                       const std::string& name) {
    const auto planner = planner_of(config, name);
    const auto stream = stream_of(config, source);
    try {
        return sim::run(settings, *planner, *stream);
    } catch (const PlanError& error) {
        throw PlanError(fmt::format("{} on {}: {}", name,
                                    format_counted(settings.problem.topology.ranks, "rank"),
                                    error.what()));
    }
}

void run(const Options& options) {
    require_output_place("--csv", options.csv);
    require_output_place("--json", options.json);
    require_different_files(std::array<NamedFile, 3>{
        {{"CONFIG", options.config}, {"--csv", options.csv}, {"--json", options.json}}});
    const config::SimulateFile config =
        config::read_simulate_file(options.config, options.overrides);
    const CostChoice choice(config.cluster.cost, config.cluster.model);
    for (const std::string& name : config.planner.names) {
        planner_of(config, name);  // an unknown name is known before an hour of simulation
        if (std::count(config.planner.names.begin(), config.planner.names.end(), name) > 1) {
            throw ConfigError(fmt::format("planner.names has '{}' twice", name));
        }
    }
    const Source source = open_source(config);
    const bool is_video = (source.distribution && source.distribution->is_video()) ||
                          (!source.all.empty() && source.all.front().frames > 0);
    std::vector<sim::RunReport> reports;
    std::string cost_name;
    for (const std::int64_t ranks : config.cluster.ranks) {
        const sim::RunSettings settings = settings_of(
            config, source, problem_of(config, choice, is_video, static_cast<int>(ranks)));
        require_reduction_once(config, *settings.problem.cost);
        cost_name = settings.problem.cost->name();
        for (const std::string& name : config.planner.names) {
            reports.push_back(run_one(config, source, settings, name));
        }
    }
    const sim::RunReport& first = reports.front();
    fmt::print("Simulated: {}; {}; first run: {} in {}, {} of virtual time\n\n{}",
               config.name.empty() ? options.config : config.name, cost_name,
               format_counted(first.sequences, "sequence"),
               format_counted(static_cast<std::int64_t>(first.iterations.size()), "iteration"),
               format_seconds(first.seconds), simulate_table(reports));
    if (!options.csv.empty()) {
        write_file_atomically(options.csv, simulate_csv(reports));
    }
    if (!options.json.empty()) {
        write_file_atomically(options.json, simulate_json(config.name, reports));
    }
}

}  // namespace

void add_simulate_command(CLI::App& app) {
    const auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("simulate", kDescription);
    command->add_option("CONFIG", options->config, "The simulation, a YAML file")
        ->type_name("")
        ->required();
    command
        ->add_option("--set", options->overrides, "Set a key, whatever the file says; repeatable")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    command->add_option("--csv", options->csv, "Write a line a run, with a head")
        ->type_name("FILE");
    command
        ->add_option("--json", options->json,
                     "Write an object a run and line, with all its iterations")
        ->type_name("FILE");
    command->footer(kExamples);
    command->callback([options] { run(*options); });
}

}  // namespace dcp
