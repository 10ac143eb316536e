// `dcp train` around the trainer: what is printed and written, when to validate, when to stop.
#include <optional>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/config/reader.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/stop_signal.hpp"
#include "core/train/trainer.hpp"
#include "kernels/linear.hpp"

namespace dcp::train {

namespace {

config::Config with_choices(config::Config config, const Trainer& trainer) {
    config.run.device = config::Device::kCpu;
    config.run.dtype = trainer.machine().compute == DType::kBFloat16
                           ? config::ComputeType::kBFloat16
                           : config::ComputeType::kFloat32;
    config.run.threads = trainer.machine().threads;
    config.memory.budget = trainer.machine().budget_bytes;
    config.batch.micro_batch_tokens = trainer.micro_batch_tokens();
    return config;
}

void print_head(const Console& console,
                const config::Config& config,
                Trainer& trainer,
                double peak_flops_per_second) {
    const data::SequenceTable& table = trainer.table();
    console.line(fmt::format("model       {}, {} parameters, {} layers, hidden {}",
                             config.model.kind,
                             format_count(trainer.model().layout().num_parameters()),
                             config.model.layers, config.model.hidden));
    console.line(fmt::format("device      cpu, {} thread{}, {}, products at {:.3f} TFLOP/s",
                             trainer.machine().threads, trainer.machine().threads == 1 ? "" : "s",
                             name(trainer.machine().compute), peak_flops_per_second * 1e-12));
    console.line(fmt::format("memory      budget {}, at most {} will be used",
                             format_bytes(trainer.machine().budget_bytes),
                             format_bytes(trainer.predicted_peak_bytes())));
    console.line(fmt::format(
        "data        {} documents, {} sequences of at most {} tokens, {} tokens an epoch{}",
        format_count(table.num_documents()), format_count(table.num_sequences()),
        format_count(table.max_tokens()), format_count(table.num_pairs()),
        table.num_one_token_documents() > 0
            ? fmt::format("; {} documents of one token have nothing to predict",
                          format_count(table.num_one_token_documents()))
            : ""));
    console.line(fmt::format("split       {} sequences to train on, {} held out",
                             format_count(trainer.split().num_training()),
                             format_count(trainer.num_validation())));
    console.line(
        fmt::format("baseline    a model that knows only how frequent each token is has loss "
                    "{:.4f} on the {} sequences",
                    trainer.frequency_loss(), trainer.can_validate() ? "held-out" : "training"));
}

// Weights that are still good must not be lost with the run.
IterationReport train_or_save(Trainer& trainer, const RunFolder& folder, std::int64_t iteration) {
    try {
        return trainer.run_iteration(iteration);
    } catch (const NonFiniteError& error) {
        trainer.save_weights(folder.file("weights"));
        throw NonFiniteError(fmt::format("{}. The weights before it are in {}", error.what(),
                                         folder.file("weights")));
    }
}

}  // namespace

void run_training(const config::Config& config, const TrainOptions& options) {
    Trainer trainer(config);
    const RunFolder folder(config.run.folder);
    folder.write("config.yaml", config::to_yaml(with_choices(config, trainer)));
    const double peak_flops_per_second =
        config.run.iterations > 0
            ? kernels::measure_matmul_flops_per_second(trainer.queue(), trainer.machine().compute)
            : 1;
    Console console(config.run.iterations, peak_flops_per_second);
    if (!folder.earlier().empty()) {
        console.line(
            fmt::format("folder      an earlier run's files were moved to {}", folder.earlier()));
    }
    print_head(console, config, trainer, peak_flops_per_second);

    const StopSignal stop;
    LineFile metrics(folder.file("metrics.jsonl"));
    std::optional<LineFile> samples;
    if (config.run.log_samples) {
        samples.emplace(folder.file("samples.jsonl"));
    }
    if (trainer.can_validate() && config.run.iterations > 0) {
        console.line(fmt::format("start       validation {:.4f}", trainer.validate()));
    }
    OpProfile profile;
    double profiled_seconds = 0;
    for (std::int64_t iteration = 1; iteration <= config.run.iterations && !stop.requested();
         ++iteration) {
        IterationReport report = train_or_save(trainer, folder, iteration);
        profiled_seconds += trainer.queue().profile() != nullptr ? report.seconds : 0;
        trainer.queue().set_profile(nullptr);
        const bool is_due =
            iteration == config.run.iterations ||
            (config.run.validate_every > 0 && iteration % config.run.validate_every == 0);
        if (trainer.can_validate() && is_due && !stop.requested()) {
            report.validation_loss = trainer.validate();
        }
        metrics.append(to_json(report, trainer.arena()));
        if (samples) {
            samples->append(samples_to_json(report));
        }
        console.iteration(report);
        trainer.queue().set_profile(options.profile_ops
                                        ? &profile
                                        : nullptr);  // from the second on: the first builds caches
    }
    if (stop.requested()) {
        console.line(fmt::format("stopped by {} at an iteration boundary", stop.name()));
    }
    if (profiled_seconds > 0) {
        console.line(format_profile(profile, profiled_seconds, peak_flops_per_second));
    }
    trainer.save_weights(folder.file("weights"));
    console.line(fmt::format("weights     {}", folder.file("weights")));
}

}  // namespace dcp::train
