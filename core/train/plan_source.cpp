#include "core/train/plan_source.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/errors.hpp"
#include "core/data/packing.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/codec.hpp"
#include "core/plan/validate.hpp"
#include "core/train/cost_source.hpp"

namespace dcp::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::int64_t GlobalBatch::tokens_of(const plan::Step& step) const {
    std::int64_t sum = 0;
    for (const std::int32_t index : step.sequences) {
        sum += lengths[static_cast<std::size_t>(index)];
    }
    return sum;
}

std::vector<int> allowed_degrees(const config::Config& config, int ranks) {
    std::string text = config.planner.degrees;  // a list keeps its brackets
    std::erase_if(text,
                  [](char letter) { return letter == '[' || letter == ']' || letter == ' '; });
    return parse_degrees(text, ranks, "planner.degrees");
}

bool is_planned(const config::Config& config, const World& world) {
    return world.size() > 1 || config.planner.name == "random";
}

PlanSource::PlanSource(const config::Config& config, const World& world, const PlanLimits& limits)
    : config_(config),
      world_(world),
      limits_(limits),
      cost_{.model = std::make_shared<ModelCost>(config.model, limits.rates),
            .degrees = allowed_degrees(config, world.size()),
            .speeds = {},
            .source = "the probe"},
      learner_(allowed_degrees(config, world.size()), world.size(), config.planner.correct) {
    if (!config.planner.cost.empty()) {
        has_cost_ = true;
        cost_ = training_cost(config, limits.rates, limits.rank_tokens, limits.deepest,
                              cost_.degrees, world.size(), ranks_per_node(world.topology));
    }
}

void PlanSource::set_rates(const ModelRates& rates) {
    limits_.rates = rates;
    cost_.model = std::make_shared<ModelCost>(config_.model, rates);
}

void PlanSource::set_cost(TrainingCost cost) {
    cost_ = std::move(cost);
    has_cost_ = true;
}

void PlanSource::set_slowness(const std::vector<double>& slowness) {
    learner_.start(slowness, cost_.speeds);
}

PlanSource::~PlanSource() {
    if (ahead_.valid()) {
        ahead_.wait();
    }
}

plan::Problem PlanSource::uncorrected_problem(const GlobalBatch& batch) const {
    plan::Problem problem;
    for (std::size_t index = 0; index < batch.sequences.size(); ++index) {
        problem.sequences.push_back({.id = batch.sequences[index], .tokens = batch.lengths[index]});
    }
    problem.cost = cost_.model;
    problem.topology = {.ranks = world_.size(),
                        .ranks_per_node = ranks_per_node(world_.topology),
                        .speeds = cost_.speeds};
    problem.degrees = cost_.degrees;
    problem.heads = {.query = static_cast<int>(config_.model.heads),
                     .key_value = static_cast<int>(config_.model.kv_heads)};
    problem.memory_budget_bytes = static_cast<double>(limits_.budget_bytes);
    problem.may_recompute = limits_.deepest > limits_.shallowest;
    problem.longest_tokens = limits_.longest_tokens;
    return problem;
}

plan::Problem PlanSource::problem(const GlobalBatch& batch) const {
    plan::Problem problem = uncorrected_problem(batch);
    learner_.correct(problem);
    return problem;
}

void PlanSource::learn(const GlobalBatch& batch, IterationReport& report) {
    learner_.learn(uncorrected_problem(batch), report);
}

plan::Plan PlanSource::pack_here(const GlobalBatch& batch) const {
    plan::Plan plan;
    const std::int64_t held = tokens_held_here();
    const std::int64_t longest = *std::max_element(batch.lengths.begin(), batch.lengths.end());
    if (longest > held) {
        throw MemoryBudgetError(
            fmt::format("a sequence has {} tokens, and memory for {} at most is left on this rank",
                        longest, held));
    }
    for (const auto& indices : data::pack(batch.lengths, held)) {
        plan::Step step{.world_ranks = {0}};
        for (const std::int64_t index : indices) {
            step.sequences.push_back(static_cast<std::int32_t>(index));
        }
        plan.steps.push_back(std::move(step));
    }
    return plan;
}

// A rank alone recomputes as few layers as its memory allows; a planner has decided for several.
// What planners count with is never below the truth; this is the truth.
void PlanSource::finish(const GlobalBatch& batch, plan::Plan& plan) const {
    const StepMemory& memory = *limits_.memory;
    for (plan::Step& step : plan.steps) {
        const std::int64_t tokens = batch.tokens_of(step);
        const std::int64_t share = (tokens + step.degree() - 1) / step.degree();
        step.recompute_layers = std::max(step.recompute_layers, limits_.shallowest);
        const double more = more_bytes(step.degree(), tokens);
        const auto bytes = [&] {
            return static_cast<double>(
                       memory.held_bytes() +
                       memory.step_bytes(share, step.strategy, step.recompute_layers)) +
                   more;
        };
        while (world_.size() == 1 && step.recompute_layers < limits_.deepest &&
               bytes() > static_cast<double>(limits_.budget_bytes)) {
            ++step.recompute_layers;
        }
        step.peak_bytes = bytes();
    }
}

PlanSource::Job PlanSource::job(std::int64_t iteration,
                                const GlobalBatch& batch,
                                bool is_awaited) const {
    return {.iteration = iteration,
            .batch = batch,
            .problem = problem(batch),
            .long_makespan_seconds = effort_.long_makespan_seconds(is_awaited)};
}

PlanSource::Planned PlanSource::make(const Job& job) const {
    const auto start = Clock::now();
    const plan::Problem& problem = job.problem;
    Planned planned;
    if (!is_planned(config_, world_)) {
        planned.plan = pack_here(job.batch);
    } else {
        plan::PlannerOptions options{
            .seed = static_cast<std::uint64_t>(config_.run.seed + job.iteration),
            .effort = plan::Effort::kFast};
        planned.plan = plan::make_planner(config_.planner.name, options)->plan(problem);
        if (planned.plan.makespan_seconds > job.long_makespan_seconds) {
            options.effort = planned.effort = plan::Effort::kBackground;
            planned.plan = plan::make_planner(config_.planner.name, options)->plan(problem);
        }
    }
    finish(job.batch, planned.plan);
    if (predicts()) {
        const double bound = planned.plan.lower_bound_seconds > 0
                                 ? planned.plan.lower_bound_seconds
                                 : plan::lower_bounds(problem).best_seconds();
        std::vector<double> bytes;
        for (const plan::Step& step : planned.plan.steps) {
            bytes.push_back(step.peak_bytes);
        }
        planned.plan = plan::predicted(problem, std::move(planned.plan.steps));
        planned.plan.lower_bound_seconds = bound;
        for (std::size_t index = 0; index < bytes.size(); ++index) {
            planned.plan.steps[index].peak_bytes = bytes[index];
        }
        planned.guesses = std::count_if(
            planned.plan.steps.begin(), planned.plan.steps.end(), [&](const auto& step) {
                return !problem.cost->covers(plan::load_of(problem, step.sequences), step.strategy);
            });
    }
    planned.seconds = seconds_since(start);
    return planned;
}

void PlanSource::warn_of_guesses(std::int64_t iteration, const Planned& planned) {
    if (world_.size() > 1 && planned.guesses > 0 && !has_warned_) {
        has_warned_ = true;
        fmt::print(stderr,
                   "dcp: warning: iteration {}: {} of {} micro-batches lie outside of what {} "
                   "measured; their costs are careful guesses (said once)\n",
                   iteration, planned.guesses, planned.plan.steps.size(), cost_.source);
    }
}

plan::Plan PlanSource::share(Queue& queue,
                             std::int64_t iteration,
                             const GlobalBatch& now,
                             const GlobalBatch& next) {
    Planned planned;
    std::vector<std::byte> bytes;
    const plan::PlanScope scope{.ranks = world_.size(),
                                .sequences = static_cast<std::int64_t>(now.sequences.size())};
    run_on_all(queue, world_, [&] {
        if (world_.is_first()) {
            const auto start = Clock::now();
            planned = ahead_.valid() ? ahead_.get() : make(job(iteration, now, true));
            exposed_seconds_ = seconds_since(start);
            bytes = plan::serialize(planned.plan, scope);
        }
    });
    if (world_.is_first()) {
        warn_of_guesses(iteration, planned);
        effort_.remember(planned.effort, planned.seconds);
        plan_seconds_ = planned.seconds;
        if (world_.size() > 1) {
            ahead_ = std::async(std::launch::async, [this, job = job(iteration + 1, next, false)] {
                return make(job);
            });
        }
    }
    last_batch_ = now;
    if (world_.size() == 1) {
        return last_ = planned.plan;
    }
    bytes = comm::broadcast_bytes(queue, *world_.all, std::move(bytes), 0);
    plan::Plan plan;
    run_on_all(queue, world_, [&] {
        plan = plan::parse_plan(bytes, scope);
        plan::Problem here = problem(now);
        here.may_recompute = true;  // the depth is in the plan, and any is right
        plan::validate_layout(here, plan);
    });
    const auto hashes = comm::all_gather_value(queue, *world_.all, plan::plan_hash(bytes));
    if (std::adjacent_find(hashes.begin(), hashes.end(), std::not_equal_to<>()) != hashes.end()) {
        throw CommError(fmt::format("iteration {}: the ranks hold different plans", iteration));
    }
    return last_ = plan;
}

plan::Plan PlanSource::take(Queue& queue,
                            std::int64_t iteration,
                            const GlobalBatch& now,
                            const GlobalBatch& next) {
    return share(queue, iteration, now, next);
}

std::vector<profile::Request> PlanSource::not_measured() const {
    const plan::Problem problem = uncorrected_problem(last_batch_);
    std::vector<profile::Request> requests;
    for (const plan::Step& step : last_.steps) {
        const plan::Load load = plan::load_of(problem, step.sequences);
        const profile::Request request = profile::request_for(load, step.strategy);
        if (!problem.cost->covers(load, step.strategy) &&
            std::find(requests.begin(), requests.end(), request) == requests.end()) {
            requests.push_back(request);
        }
    }
    return requests;
}

}  // namespace dcp::train
