// One iteration, top to bottom as in design section 4, for one rank: the plan is "all micro-batches
// here".
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "core/base/copy.hpp"
#include "core/base/errors.hpp"
#include "core/data/packing.hpp"
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

}  // namespace

IterationReport Trainer::run_iteration(std::int64_t iteration) {
    const auto start = std::chrono::steady_clock::now();
    arena_.reset_peak();
    IterationReport report;
    report.iteration = iteration;
    report.sequences = sampler_->next();
    report.learning_rate = schedule_.learning_rate(iteration);

    kernels::fill_zero(queue_, model_->gradients());
    train_micro_batches(report.sequences, report);
    report.grad_norm = optimizer_->global_norm(queue_, arena_, model_->gradients());
    if (!std::isfinite(report.grad_norm)) {
        fail_not_finite(iteration, fmt::format("the gradient norm is {}", report.grad_norm),
                        report.sequences);
    }
    optimizer_->step(queue_, model_->parameters(), model_->gradients(), report.learning_rate,
                     optimizer_->clip_factor(report.grad_norm));
    model_->prepare(queue_);

    queue_.synchronize();
    report.peak_bytes = arena_.peak_bytes();
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

// Losses are weighted by the whole batch before they are summed, so that it does not matter how the
// batch is cut.
void Trainer::train_micro_batches(const std::vector<std::int64_t>& sequences,
                                  IterationReport& report) {
    std::vector<std::int64_t> lengths;
    for (const std::int64_t sequence : sequences) {
        lengths.push_back(table_->tokens(sequence));
        report.tokens += lengths.back();
    }
    const auto weight = [&](std::int64_t length) {
        const double terms =
            config_.run.loss_normalization == config::LossNormalization::kToken
                ? static_cast<double>(report.tokens)
                : static_cast<double>(sequences.size()) * static_cast<double>(length);
        return static_cast<float>(1 / terms);
    };
    for (const auto& indices : data::pack(lengths, micro_batch_tokens_)) {
        const Arena::Scope scratch(arena_);
        std::vector<std::int64_t> ids;
        std::vector<float> weights;
        for (const std::int64_t index : indices) {
            ids.push_back(sequences[static_cast<std::size_t>(index)]);
            weights.push_back(weight(lengths[static_cast<std::size_t>(index)]));
        }
        const model::MicroBatch& batch = loader_->load(queue_, arena_, ids, weights);
        const Tensor loss_T = arena_.allocate("losses", MemoryCategory::kActivations,
                                              DType::kFloat32, {batch.num_tokens()});
        model_->train_micro_batch(queue_, arena_, batch, config_.model.recompute_layers, loss_T);

        const auto bytes =
            static_cast<std::int64_t>(kernels::sum_workspace_bytes(batch.num_tokens()));
        const Tensor sum =
            arena_.allocate("loss", MemoryCategory::kWorkspace, DType::kUInt8, {sizeof(double)});
        const Tensor workspace =
            arena_.allocate("loss workspace", MemoryCategory::kWorkspace, DType::kUInt8, {bytes});
        kernels::weighted_sum(queue_, loss_T, batch.weights_T, sum, workspace);
        const double loss = read_float64(queue_, sum);
        if (!std::isfinite(loss)) {
            fail_not_finite(report.iteration, fmt::format("the loss is {}", loss), ids);
        }
        report.loss += loss;
        report.flops += model_->training_flops(batch);
        ++report.micro_batches;
    }
}

// Weights are looked at first: a bad one makes every gradient bad.
void Trainer::fail_not_finite(std::int64_t iteration,
                              const std::string& what,
                              const std::vector<std::int64_t>& sequences) {
    std::string culprit = "all weights and gradients are finite";
    const auto look_at = [&](ConstTensor flat, std::string_view kind) {
        for (const model::ParameterSlot& slot : model_->layout().slots()) {
            if (!is_finite(queue_, arena_, flat.rows(slot.offset, slot.shape.num_elems()))) {
                culprit = fmt::format("first bad tensor: {} '{}' {}", kind, slot.name,
                                      slot.shape.to_string());
                return true;
            }
        }
        return false;
    };
    if (!look_at(model_->parameters(), "weight")) {
        look_at(model_->gradients(), "gradient of");
    }
    throw NonFiniteError(
        fmt::format("iteration {}: {}; {}; sequences {}. Nothing was updated with it. Lower "
                    "optimizer.lr, or look at "
                    "these sequences and at model.init_from",
                    iteration, what, culprit, list_sequences(sequences)));
}

}  // namespace dcp::train
