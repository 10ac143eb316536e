// dcp plan: plans for imagined clusters, without training anything.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/dcp/commands.hpp"
#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/plan_check.hpp"
#include "apps/dcp/plan_options.hpp"
#include "apps/dcp/plan_problem.hpp"
#include "apps/dcp/plan_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/elastic.hpp"
#include "core/plan/json.hpp"
#include "core/plan/lp/lp_bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

namespace dcp {

namespace {

constexpr const char* kDescription = R"(Plan batches for a cluster, without training

Draws batches of sequence lengths, plans each for the given number of ranks under a cost
model, and prints makespan, lower bound, imbalance and time to plan of every planner.
Command line beats the cost file.

`dcp plan --check FILE` checks plans that a --json file holds, ours or another program's:
that all sequences are run, once each, on ranks that may form a group and have the memory,
and that every number is what the cost model makes of the plan. Not computed again are
plan_seconds and lower_bound_seconds: some bounds are stronger than others, so any from
0 to the makespan will do.)";

constexpr const char* kExamples = R"(Examples:
  dcp plan --lengths batch.txt --cost configs/costs/flexsp-gpt-7b.yaml --ranks 64
  dcp plan --dataset data/manpages --cost configs/costs/flexsp-gpt-7b.yaml --ranks 16
      --batch-sequences 128 --batches 5 --compare bucket,packed,dcp --json plans.jsonl
  dcp plan --lengths videos.txt --cost configs/clusters/h200.yaml
      --model configs/transformer-2d-1.2b.yaml --ranks 32
  dcp plan --check plans.jsonl --cost configs/costs/flexsp-gpt-7b.yaml

Exit status: 0 done, 2 bad input, a sequence that fits nowhere, or a broken plan, 3 what was
planned cannot be written, or there is no memory left.)";

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
    require_different_files(std::array<NamedFile, 4>{{{"--cost", options.cost},
                                                      {"--lengths", options.batch.lengths},
                                                      {"--json", options.json},
                                                      {"--trace", options.trace}}});
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
