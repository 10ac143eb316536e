// dcp plan: plans for imagined clusters, without training anything.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/plan_options.hpp"
#include "apps/dcp/plan_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/elastic.hpp"
#include "core/plan/json.hpp"
#include "core/plan/lp/lp_bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/statistics.hpp"
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

// Everything but the sequences.
plan::Problem problem_of(const PlanOptions& options, const CostChoice& choice, int ranks) {
    plan::Problem problem =
        train::planning_problem(choice.cost(ranks, options.ranks_per_node), ranks);
    if (!options.degrees.empty()) {
        problem.degrees = train::parse_degrees(options.degrees, ranks, "--degrees");
    }
    if (!options.memory_budget.empty()) {
        const auto bytes = parse_bytes(options.memory_budget);
        if (bytes.value_or(0) < 1) {
            throw ConfigError(
                fmt::format("--memory-budget {}: expected bytes above 0, such as 12GiB",
                            options.memory_budget));
        }
        problem.memory_budget_bytes = static_cast<double>(*bytes);
    }
    if (!options.recompute.empty()) {
        problem.may_recompute = options.recompute == "yes";
    }
    problem.step_mode = plan::parse_step_mode(options.step_mode);
    if (!options.rank_speeds.empty()) {
        problem.topology.speeds = options.rank_speeds;
    }
    return problem;
}

// What a file says besides the plan itself, against what the plan makes it.
void check_figures(const plan::PlanFile& read, const plan::Problem& problem) {
    constexpr double kPrecision = 1e-6;
    const plan::Statistics numbers = plan::statistics(problem, read.plan);
    const auto require_same = [](const char* key, double said, double found) {
        if (!(std::abs(said - found) <= kPrecision * std::max(1.0, std::abs(found)))) {
            throw PlanError(fmt::format("{} is {}, and the plan makes it {}", key, said, found));
        }
    };
    require_same("imbalance_ratio", read.imbalance_ratio, numbers.imbalance_ratio);
    require_same("tokens_per_second", read.tokens_per_second, numbers.tokens_per_second);
    if (read.label.cost != problem.cost->name()) {
        throw PlanError(fmt::format("it was made for the costs '{}', and these are '{}'",
                                    read.label.cost, problem.cost->name()));
    }
}

void require_ranks_per_node(const plan::PlanFile& read, const std::optional<int>& wanted) {
    if (wanted && *wanted != read.ranks_per_node) {
        throw PlanError(fmt::format("ranks_per_node is {}, and --ranks-per-node {}",
                                    read.ranks_per_node, *wanted));
    }
}

// Checks every plan of a file; PlanError at the first that breaks a promise.
void check_file(const PlanOptions& options, const CostChoice& choice) {
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
            require_ranks_per_node(read, options.ranks_per_node);
            PlanOptions here = options;
            here.ranks_per_node = read.ranks_per_node;
            plan::Problem problem = problem_of(here, choice, read.ranks);
            problem.sequences = read.sequences;
            problem.step_mode = read.step_mode;
            if (!read.rank_speeds.empty()) {
                problem.topology.speeds = read.rank_speeds;
            }
            choice.weigh(problem, options.check);
            plan::check_problem(problem);
            plan::validate(problem, read.plan);
            check_figures(read, problem);
            name = problem.cost->name();
        } catch (const PlanError& error) {
            throw PlanError(fmt::format("{}:{}: {}", options.check, number, error.what()));
        }
        ++plans;
    }
    if (plans == 0) {
        throw DataError(fmt::format("{}: holds no plan", options.check));
    }
    fmt::print("{}: {} plans, all valid under {}\n", options.check, plans, name);
}

double bound_seconds(const plan::Problem& problem, const PlanOptions& options) {
    return options.bound == "lp" ? plan::lp::lower_bound_seconds(problem)
                                 : plan::lower_bounds(problem).best_seconds();
}

PlanRecord planned(const plan::Problem& problem,
                   const std::string& planner,
                   std::int64_t batch,
                   const PlanOptions& options,
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

std::string source_name(const BatchOptions& batch) {
    if (!batch.distribution.empty()) {
        return batch.distribution;
    }
    return batch.lengths.empty() ? batch.dataset : batch.lengths;
}

// The batches are a run: planners with one SP degree choose it once, for the longest of all.
std::int64_t longest_tokens(const std::vector<std::vector<plan::Sequence>>& batches) {
    std::int64_t longest = 0;
    for (const auto& batch : batches) {
        for (const plan::Sequence& sequence : batch) {
            longest = std::max(longest, sequence.tokens);
        }
    }
    return longest;
}

std::vector<PlanRecord> plan_fixed_batches(plan::Problem problem,
                                           const CostChoice& choice,
                                           const std::vector<std::string>& planners,
                                           const PlanOptions& options) {
    std::vector<PlanRecord> records;
    std::int64_t number = 0;
    const auto batches = plan_batches(options.batch);
    problem.longest_tokens = longest_tokens(batches);
    for (const std::vector<plan::Sequence>& batch : batches) {
        problem.sequences = batch;
        choice.weigh(problem, source_name(options.batch));
        const double bound = bound_seconds(problem, options);
        for (const std::string& planner : planners) {
            records.push_back(planned(problem, planner, number, options, bound));
        }
        ++number;
    }
    return records;
}

// Every planner draws from the same order: a batch is B sequences and as many of the next as find
// room in idle time, and the next batch begins behind those.
std::vector<PlanRecord> plan_elastic_batches(plan::Problem problem,
                                             const CostChoice& choice,
                                             const std::vector<std::string>& planners,
                                             const PlanOptions& options) {
    if (!options.batch.batch_sequences) {
        throw ConfigError("--batch-mode elastic needs --batch-sequences B");
    }
    if (problem.step_mode != plan::StepMode::kIndependent) {
        throw ConfigError(
            "--batch-mode elastic needs --step-mode independent: in rounds no rank "
            "is idle alone");
    }
    const auto base = static_cast<std::size_t>(*options.batch.batch_sequences);
    BatchOptions drawn = options.batch;
    drawn.batches *= 3;  // a batch is filled with twice its size at most
    const auto batches = plan_batches(drawn);
    problem.longest_tokens = longest_tokens(batches);
    for (const std::vector<plan::Sequence>& batch : batches) {
        problem.sequences.insert(problem.sequences.end(), batch.begin(), batch.end());
    }
    choice.weigh(problem, source_name(options.batch));
    const std::vector<plan::Sequence> stream = std::move(problem.sequences);
    std::vector<PlanRecord> records;
    for (const std::string& planner : planners) {
        std::size_t next = 0;
        for (std::int64_t number = 0; number < options.batch.batches; ++number) {
            const std::span<const plan::Sequence> rest = std::span(stream).subspan(next);
            problem.sequences.assign(rest.begin(),
                                     rest.begin() + static_cast<std::ptrdiff_t>(base));
            PlanRecord record = planned(problem, planner, number, options, 0);
            next += base +
                    plan::fill_idle_time(record.problem, record.plan, rest.subspan(base, 2 * base));
            record.plan.lower_bound_seconds = bound_seconds(record.problem, options);
            plan::validate(record.problem, record.plan);
            records.push_back(std::move(record));
        }
    }
    return records;
}

std::string json_lines(const std::vector<PlanRecord>& records, const PlanOptions& options) {
    std::string lines;
    for (const PlanRecord& record : records) {
        lines += plan::to_json(record.problem, record.plan,
                               {.planner = record.planner,
                                .cost = std::string(record.problem.cost->name()),
                                .batch = record.batch,
                                .seed = options.batch.seed,
                                .plan_seconds = record.plan_seconds,
                                .is_elastic = options.batch_mode == "elastic"}) +
                 "\n";
    }
    return lines;
}

void run(const PlanOptions& options) {
    const CostChoice choice(options.cost, options.model);
    if (!options.check.empty()) {
        check_file(options, choice);
        return;
    }
    check_limits(options);
    require_output_place("--json", options.json);
    require_output_place("--trace", options.trace);
    plan::Problem problem = problem_of(options, choice, options.ranks.value());
    const std::vector<std::string> planners =
        options.compare.empty() ? std::vector<std::string>{options.planner} : options.compare;
    for (const std::string& planner : planners) {
        plan::make_planner(planner);  // an unknown name is known before an hour of planning
        if (std::count(planners.begin(), planners.end(), planner) > 1) {
            throw ConfigError(fmt::format("--compare names '{}' twice", planner));
        }
    }
    const std::vector<PlanRecord> records =
        options.batch_mode == "elastic" ? plan_elastic_batches(problem, choice, planners, options)
                                        : plan_fixed_batches(problem, choice, planners, options);
    print_report(records);
    if (!options.json.empty()) {
        write_file_atomically(options.json, json_lines(records, options));
    }
    if (!options.trace.empty()) {
        write_file_atomically(options.trace, plan_trace(records));
    }
}

}  // namespace

void add_plan_command(CLI::App& app) {
    const auto options = std::make_shared<PlanOptions>();
    CLI::App* command = app.add_subcommand("plan", kDescription);
    add_options(*command, *options);
    command->footer(kExamples);
    command->callback([options] {
        require_what_to_plan(*options);
        run(*options);
    });
}

}  // namespace dcp
