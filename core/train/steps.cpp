// The steps of an iteration on one rank.
//
// Every rank walks all steps of the plan in the one global order and runs those that name it, so
// two ranks that share two groups meet in the same order. World collectives start when a rank has
// no step left.
//
// Before a step its ranks ask each other whether all of them have the memory for it: what it needs
// is known to the byte. Where one has not, none runs it, and from then on each of them takes part
// in no other step, saying so where it is expected: nobody waits for ever, and when the walk is
// over all ranks hear of it (gather_shortages). A rank that finds in the middle of a shared step
// that more was needed than was known passes its budget to the end of that step.
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>

#include "comm/control.hpp"
#include "core/base/copy.hpp"
#include "core/base/errors.hpp"
#include "core/model/sharded_attention.hpp"
#include "core/train/trainer.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sum over tokens of loss times weight.
double weighted_loss(Queue& queue, Arena& arena, ConstTensor loss_T, ConstTensor weights_T) {
    const Arena::Scope scratch(arena);
    const auto bytes = static_cast<std::int64_t>(kernels::sum_workspace_bytes(loss_T.num_elems()));
    const Tensor sum =
        arena.allocate("loss", MemoryCategory::kWorkspace, DType::kUInt8, {sizeof(double)});
    const Tensor workspace =
        arena.allocate("loss workspace", MemoryCategory::kWorkspace, DType::kUInt8, {bytes});
    kernels::weighted_sum(queue, loss_T, weights_T, sum, workspace);
    return read_float64(queue, sum);
}

std::int64_t largest_of_all(Queue& queue, comm::Communicator& group, std::int64_t value) {
    comm::all_reduce_values(queue, group, std::span(&value, 1), comm::ReduceOp::kMax);
    return value;
}

}  // namespace

void Trainer::run_steps(const GlobalBatch& batch, const plan::Plan& plan, IterationReport& report) {
    const auto start = Clock::now();
    for (std::size_t index = 0; index < plan.steps.size(); ++index) {
        const plan::Step& step = plan.steps[index];
        comm::Communicator* group = groups_->use(step.world_ranks);  // on members and others alike
        if (group == nullptr) {
            continue;
        }
        const double loss_before = report.loss;
        const double step_start = seconds_since(start);
        const std::size_t steps_before = report.steps.size();
        run_step(batch, step, static_cast<int>(index), *group, report);
        if (report.steps.size() > steps_before) {
            report.steps.back().step = static_cast<int>(index);
            report.steps.back().start_seconds = step_start;
        }
        if (!std::isfinite(report.loss) && std::isfinite(loss_before)) {
            report.first_bad_step = static_cast<std::int64_t>(index);
        }
    }
    report.steps_seconds = seconds_since(start);
}

// Collective over the group, which also waits here for late peers, so that waiting is not taken for
// communication.
bool Trainer::may_run(const GlobalBatch& batch,
                      const plan::Step& step,
                      int index,
                      comm::Communicator& group,
                      IterationReport& report) {
    std::int64_t tokens = 0;
    for (const std::int32_t sequence : step.sequences) {
        tokens += batch.lengths[static_cast<std::size_t>(sequence)];
    }
    const std::int64_t share = (tokens + step.degree() - 1) / step.degree();
    const std::int64_t missing = arena_.current_bytes() +
                                 memory_->step_bytes(share, step.strategy, step.recompute_layers) -
                                 arena_.budget_bytes();
    if (missing > 0 && !report.shortage) {
        report.shortage = {.step = index, .rank = world_.rank(), .missing_bytes = missing};
    }
    std::int64_t is_short = report.shortage ? 1 : 0;
    if (group.group_size() > 1) {
        is_short = largest_of_all(queue_, group, is_short);
    }
    if (is_short > 0 && !report.shortage) {  // a peer's
        report.shortage = {.step = index, .rank = world_.rank(), .missing_bytes = 0};
    }
    return is_short == 0;
}

void Trainer::run_step(const GlobalBatch& batch,
                       const plan::Step& step,
                       int index,
                       comm::Communicator& group,
                       IterationReport& report) {
    const auto start = Clock::now();
    const comm::Traffic::Entry before = group.traffic().total();
    const bool is_shared = group.group_size() > 1;
    arena_.start_mark();
    const Arena::Scope scratch(arena_);
    if (faults_.before_asking) {
        faults_.before_asking(arena_, index);
    }
    if (!may_run(batch, step, index, group, report)) {
        return;
    }
    const double waited = seconds_since(start);
    const comm::Traffic::Entry asked = group.traffic().total();
    std::optional<Arena::Overdraft> overdraft;
    if (is_shared) {
        overdraft.emplace(arena_);
    }
    try {
        if (faults_.after_asking) {
            faults_.after_asking(arena_, index);
        }
        train_step(batch, step, group, report);
    } catch (const MemoryBudgetError&) {
        if (is_shared) {  // its peers are in the middle of an exchange: the run ends
            throw;
        }
    }
    if (arena_.missing_bytes() > 0) {
        report.shortage = {
            .step = index, .rank = world_.rank(), .missing_bytes = arena_.missing_bytes()};
        return;
    }
    const comm::Traffic::Entry after = group.traffic().total();
    report.sent_bytes += static_cast<double>(after.sent_bytes - before.sent_bytes);
    report.steps.push_back({.rank = world_.rank(),
                            .wait_seconds = waited,
                            .communication_seconds = is_shared ? after.seconds - asked.seconds : 0,
                            .seconds = seconds_since(start) - waited,
                            .peak_bytes = arena_.mark_bytes()});
}

void Trainer::train_step(const GlobalBatch& batch,
                         const plan::Step& step,
                         comm::Communicator& group,
                         IterationReport& report) {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> lengths;
    std::vector<float> weights;
    for (const std::int32_t index : step.sequences) {
        ids.push_back(batch.sequences[static_cast<std::size_t>(index)]);
        lengths.push_back(batch.lengths[static_cast<std::size_t>(index)]);
        weights.push_back(weight(batch, lengths.back()));
    }
    const auto train = [&](const model::MicroBatch& micro, model::SequenceAttention& attention) {
        const Tensor loss_T = arena_.allocate("losses", MemoryCategory::kActivations,
                                              DType::kFloat32, {micro.num_tokens()});
        model_->train_micro_batch(queue_, arena_, micro, attention, step.recompute_layers, loss_T);
        report.loss += weighted_loss(queue_, arena_, loss_T, micro.weights_T);
    };
    if (group.group_size() == 1) {
        train(loader_->load(queue_, arena_, ids, weights), local_attention_);
    } else {
        const model::StepLayout layout(lengths, step.strategy.ulysses, step.strategy.ring);
        model::ShardedAttention attention(group, layout);
        train(loader_->load(queue_, arena_, ids, weights, layout.pieces(group.group_rank())),
              attention);
    }
    report.flops += model_->training_flops(lengths) / group.group_size();
}

// Collective over the world: those of all ranks, by rank, of steps that were too large there.
std::vector<MemoryShortage> Trainer::gather_shortages(const IterationReport& report) {
    comm::Communicator& world = *world_.all;
    std::vector<MemoryShortage> shortages;
    if (largest_of_all(queue_, world, report.shortage ? 1 : 0) == 0) {
        return shortages;
    }
    const MemoryShortage own = report.shortage.value_or(MemoryShortage{});
    const auto steps = comm::all_gather_value(queue_, world, static_cast<double>(own.step));
    const auto missing =
        comm::all_gather_value(queue_, world, static_cast<double>(own.missing_bytes));
    for (std::size_t rank = 0; rank < steps.size(); ++rank) {
        if (missing[rank] > 0) {
            shortages.push_back({.step = static_cast<int>(steps[rank]),
                                 .rank = static_cast<int>(rank),
                                 .missing_bytes = static_cast<std::int64_t>(missing[rank])});
        }
    }
    return shortages;
}

}  // namespace dcp::train
