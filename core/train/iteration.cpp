// One iteration, top to bottom as in design section 4. All that can differ between plans happens
// inside run_steps (core/train/steps.cpp); all that must not is summed over the world in an order
// of its own. Where a rank has too little memory for a step, the iteration is planned anew and run
// again from the same weights and samples.
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/copy.hpp"
#include "core/base/errors.hpp"
#include "core/model/sharded_attention.hpp"
#include "core/train/trainer.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::train {

namespace {

// The ids of a batch, cut where a person stops reading.
std::string list_sequences(const std::vector<std::int64_t>& sequences) {
    constexpr std::size_t kShown = 20;
    const std::size_t shown = std::min(sequences.size(), kShown);
    std::string text = fmt::format(
        "{}",
        fmt::join(sequences.begin(), sequences.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    return shown < sequences.size() ? fmt::format("{} and {} more", text, sequences.size() - shown)
                                    : text;
}

bool is_finite(Queue& queue, Arena& arena, ConstTensor values) {
    const Arena::Scope scratch(arena);
    const auto bytes = static_cast<std::int64_t>(kernels::sum_workspace_bytes(values.num_elems()));
    const Tensor out =
        arena.allocate("squared norm", MemoryCategory::kWorkspace, DType::kUInt8, {sizeof(double)});
    const Tensor workspace =
        arena.allocate("norm workspace", MemoryCategory::kWorkspace, DType::kUInt8, {bytes});
    kernels::sum_of_squares(queue, values, out, workspace);
    return std::isfinite(read_float64(queue, out));
}

// A not-a-number has a sign, which means nothing to a reader.
double without_sign_of_nan(double value) {
    return std::isnan(value) ? std::fabs(value) : value;
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double sum_of_all(Queue& queue, comm::Communicator& world, double value) {
    comm::all_reduce_values(queue, world, std::span(&value, 1), comm::ReduceOp::kSum);
    return value;
}

// Those of all ranks, by rank; the plan says how many each has.
std::vector<StepRecord> gather_steps(Queue& queue,
                                     comm::Communicator& world,
                                     const std::vector<StepRecord>& own,
                                     const plan::Plan& plan) {
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(world.group_size()));
    std::size_t total = 0;
    for (const plan::Step& step : plan.steps) {
        for (const int rank : step.world_ranks) {
            bytes[static_cast<std::size_t>(rank)] += sizeof(StepRecord);
        }
        total += step.world_ranks.size();
    }
    std::vector<StepRecord> all(total);
    const auto view = [](const std::vector<StepRecord>& records) {
        return Shape{static_cast<std::int64_t>(records.size() * sizeof(StepRecord))};
    };
    world.all_gather(queue, ConstTensor(own.data(), DType::kUInt8, view(own)),
                     Tensor(all.data(), DType::kUInt8, view(all)), bytes);
    return all;
}

double smallest_of_all(Queue& queue, comm::Communicator& world, double value) {
    double negative = -value;
    comm::all_reduce_values(queue, world, std::span(&negative, 1), comm::ReduceOp::kMax);
    return -negative;
}

}  // namespace

IterationReport Trainer::run_iteration(std::int64_t iteration) {
    const auto start = Clock::now();
    arena_.reset_peak();
    const GlobalBatch batch = draw(*sampler_);
    data::Sampler ahead = *sampler_;
    const GlobalBatch next = draw(ahead);
    plan::Plan plan = plans_->take(queue_, iteration, batch, next);
    measure_new(iteration);
    IterationReport report;
    for (int replays = 0;; ++replays) {
        report = begin_report(iteration, batch, plan);
        report.replays = replays;
        kernels::fill_zero(queue_, model_->gradients());
        run_steps(batch, plan, report);
        const std::vector<MemoryShortage> shortages = gather_shortages(report);
        if (shortages.empty()) {
            break;
        }
        // Nothing but gradients has changed.
        plan = plans_->replan(queue_, iteration, batch, next, shortages, replays);
    }
    optimizer_->reduce(queue_, arena_, model_->gradients());
    report.grad_norm = optimizer_->global_norm(queue_, arena_, model_->gradients());
    require_finite(batch, plan, report);
    optimizer_->step(queue_, model_->parameters(), model_->gradients(), report.learning_rate,
                     optimizer_->clip_factor(report.grad_norm));
    model_->prepare(queue_);

    queue_.synchronize();
    report.peak_bytes = arena_.peak_bytes();
    report.seconds = seconds_since(start);
    report.plan_seconds = plans_->plan_seconds();
    report.plan_exposed_seconds = plans_->exposed_seconds();
    reduce_report(plan, report);
    plans_->learn(batch, report);
    return report;
}

IterationReport Trainer::begin_report(std::int64_t iteration,
                                      const GlobalBatch& batch,
                                      const plan::Plan& plan) const {
    IterationReport report;
    report.iteration = iteration;
    report.sequences = batch.sequences;
    report.lengths = batch.lengths;
    report.tokens = batch.tokens;
    report.learning_rate = schedule_.learning_rate(iteration);
    report.read_plan(plan);
    report.predicted_peak_bytes =
        std::max(report.predicted_peak_bytes, static_cast<double>(memory_->least_peak_bytes()));
    report.num_ranks = world_.size();
    return report;
}

GlobalBatch Trainer::draw(data::Sampler& sampler) const {
    GlobalBatch batch{.sequences = sampler.next()};
    for (const std::int64_t sequence : batch.sequences) {
        batch.lengths.push_back(table_->tokens(sequence));
        batch.tokens += batch.lengths.back();
    }
    return batch;
}

// Losses are weighted by the whole batch before they are summed, so that it does not matter how the
// batch is cut.
float Trainer::weight(const GlobalBatch& batch, std::int64_t length) const {
    const double terms =
        config_.run.loss_normalization == config::LossNormalization::kToken
            ? static_cast<double>(batch.tokens)
            : static_cast<double>(batch.sequences.size()) * static_cast<double>(length);
    return static_cast<float>(1 / terms);
}

// What ranks know apart becomes what all know: sums of losses and operations, the busiest rank, ...
void Trainer::reduce_report(const plan::Plan& plan, IterationReport& report) {
    comm::Communicator& world = *world_.all;
    report.flops = sum_of_all(queue_, world, report.flops);
    report.sent_bytes = sum_of_all(queue_, world, report.sent_bytes);
    report.peak_bytes = static_cast<std::int64_t>(
        -smallest_of_all(queue_, world, -static_cast<double>(report.peak_bytes)));
    report.steps = gather_steps(queue_, world, report.steps, plan);
    std::vector<double> busy(static_cast<std::size_t>(world.group_size()));
    std::vector<double> talked(busy.size());
    for (const StepRecord& step : report.steps) {
        busy[static_cast<std::size_t>(step.rank)] += step.seconds;
        talked[static_cast<std::size_t>(step.rank)] += step.communication_seconds;
    }
    const auto steps = comm::all_gather_value(queue_, world, report.steps_seconds);
    report.makespan_seconds = *std::max_element(steps.begin(), steps.end());
    report.exchange_seconds = *std::max_element(talked.begin(), talked.end());
    std::vector<double> computing;
    for (std::size_t rank = 0; rank < busy.size(); ++rank) {
        report.imbalance_ratio +=
            (1 - busy[rank] / report.makespan_seconds) / static_cast<double>(busy.size());
        computing.push_back((busy[rank] - talked[rank]) / report.makespan_seconds);
        report.busy_fraction_mean += computing.back() / static_cast<double>(busy.size());
    }
    for (const double fraction : computing) {
        report.busy_fraction_variance +=
            std::pow(fraction - report.busy_fraction_mean, 2) / static_cast<double>(busy.size());
    }
}

// Collective, like what it looks at: either no rank throws or all do, alike.
void Trainer::require_finite(const GlobalBatch& batch,
                             const plan::Plan& plan,
                             IterationReport& report) {
    comm::Communicator& world = *world_.all;
    report.loss = sum_of_all(queue_, world, report.loss);
    if (std::isfinite(report.loss) && std::isfinite(report.grad_norm)) {
        return;
    }
    // Weights are looked at first: a bad one makes every gradient bad.
    const auto& slots = model_->layout().slots();
    const auto count = static_cast<std::int64_t>(slots.size());
    std::int64_t culprit = 2 * count;
    for (std::int64_t index = 2 * count - 1; index >= 0; --index) {
        const model::ParameterSlot& slot = slots[static_cast<std::size_t>(index % count)];
        const Tensor flat = index < count ? model_->parameters() : model_->gradients();
        if (!is_finite(queue_, arena_, flat.rows(slot.offset, slot.shape.num_elems()))) {
            culprit = index;
        }
    }
    culprit =
        static_cast<std::int64_t>(smallest_of_all(queue_, world, static_cast<double>(culprit)));
    const auto bad_step = static_cast<std::int64_t>(
        smallest_of_all(queue_, world, static_cast<double>(report.first_bad_step)));
    std::vector<std::int64_t> sequences = batch.sequences;
    if (bad_step < static_cast<std::int64_t>(plan.steps.size())) {
        sequences.clear();
        for (const std::int32_t index : plan.steps[static_cast<std::size_t>(bad_step)].sequences) {
            sequences.push_back(batch.sequences[static_cast<std::size_t>(index)]);
        }
    }
    std::string tensor = "all weights and gradients are finite";
    if (culprit < 2 * count) {
        const model::ParameterSlot& slot = slots[static_cast<std::size_t>(culprit % count)];
        tensor =
            fmt::format("first bad tensor: {} '{}' {}", culprit < count ? "weight" : "gradient of",
                        slot.name, slot.shape.to_string());
    }
    throw NonFiniteError(fmt::format(
        "iteration {}: the loss is {}, the gradient norm {}; {}; sequences {}. Nothing was updated "
        "with it. Lower "
        "optimizer.lr, or look at these sequences and at model.init_from",
        report.iteration, without_sign_of_nan(report.loss), without_sign_of_nan(report.grad_norm),
        tensor, list_sequences(sequences)));
}

}  // namespace dcp::train
