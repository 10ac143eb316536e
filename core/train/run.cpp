// `dcp train` around the trainer: what is printed and written, when to validate, when to stop.
#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/cuda/availability.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/config/reader.hpp"
#include "core/train/measures.hpp"
#include "core/train/prediction.hpp"
#include "core/train/prometheus.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/stop_signal.hpp"
#include "core/train/tensorboard.hpp"
#include "core/train/trace.hpp"
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
    console.line(fmt::format("device      cpu, {} thread{} a rank, {}, products at {:.3f} TFLOP/s",
                             trainer.machine().threads, trainer.machine().threads == 1 ? "" : "s",
                             name(trainer.machine().compute), peak_flops_per_second * 1e-12));
    const cuda::Availability gpu = cuda::availability();
    if (gpu.is_built) {
        console.line(fmt::format("cuda        {}{}: the CPU trains", gpu.description,
                                 gpu.is_usable ? "; no model runs on a GPU in this version" : ""));
    }
    console.line(fmt::format(
        "ranks       {}{}", trainer.world().topology.to_string(),
        trainer.world().size() > 1 ? fmt::format(", planner {}", config.planner.name) : ""));
    if (!trainer.cost_origin().empty()) {
        console.line(fmt::format("costs       {}", trainer.cost_origin()));
    }
    console.line(fmt::format("memory      budget {} a rank, at most {} will be used",
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

// The files of a run, which world rank 0 writes alone.
class RunFiles {
public:
    RunFiles(const config::Config& config, const Trainer& trainer)
        : monitor_(config.monitor),
          folder_(config.run.folder),
          metrics_(folder_.file("metrics.jsonl")) {
        folder_.write("config.yaml", config::to_yaml(with_choices(config, trainer)));
        if (config.run.log_samples) {
            samples_.emplace(folder_.file("samples.jsonl"));
        }
        if (config.monitor.tensorboard) {
            events_.emplace(folder_.file(event_file_name()));
        }
    }
    void append(const IterationReport& report, const Arena& arena) {
        metrics_.append(to_json(report, arena, monitor_.log_steps));
        if (samples_) {
            samples_->append(samples_to_json(report));
        }
        if (events_) {
            std::vector<Scalar> scalars;
            for (const Measure& measure : measures(report)) {
                scalars.push_back(
                    {fmt::format("{}/{}", measure.group, measure.key), measure.value});
            }
            events_->append(report.iteration, scalars);
        }
        const std::vector<std::int64_t>& traced = monitor_.trace_iterations;
        if (std::find(traced.begin(), traced.end(), report.iteration) != traced.end()) {
            folder_.write(trace_file_name(report.iteration), to_trace(report));
        }
    }
    const std::string& earlier() const { return folder_.earlier(); }
    std::string weights() const { return folder_.file("weights"); }

private:
    config::MonitorConfig monitor_;
    RunFolder folder_;
    LineFile metrics_;
    std::optional<LineFile> samples_;
    std::optional<EventFile> events_;
};

// What Prometheus is told, by world rank 0.
class Prometheus {
public:
    Prometheus(const config::Config& config, int num_ranks)
        : server_(config.monitor.prometheus_port), metrics_(config.planner.name, num_ranks) {
        server_.publish(metrics_.text());
    }
    void add(const IterationReport& report) {
        metrics_.add(report);
        server_.publish(metrics_.text());
    }
    int port() const { return server_.port(); }

private:
    PrometheusServer server_;
    PrometheusMetrics metrics_;
};

// Of world rank 0; nothing on the others.
struct Outputs {
    std::optional<Prometheus> prometheus;
    std::optional<RunFiles> files;
};

class Run {
public:
    Run(const config::Config& config, Trainer& trainer, Outputs& outputs)
        : config_(config),
          trainer_(trainer),
          files_(outputs.files),
          prometheus_(outputs.prometheus),
          peak_flops_per_second_(peak()),
          console_(config.run.iterations, peak_flops_per_second_, trainer.world()),
          stop_(/*speaks=*/trainer.world().is_first()) {}

    void train(bool profile_ops) {
        start();
        OpProfile profile;
        double profiled_seconds = 0;
        std::int64_t iteration = 1;
        for (; iteration <= config_.run.iterations && !stop_requested(); ++iteration) {
            IterationReport report = run_iteration(iteration);
            profiled_seconds += trainer_.queue().profile() != nullptr ? report.seconds : 0;
            // From the second iteration on: the first builds caches.
            trainer_.queue().set_profile(profile_ops ? &profile : nullptr);
            if (files_) {
                files_->append(report, trainer_.arena());
            }
            if (prometheus_) {
                prometheus_->add(report);
            }
            prediction_.add(report);
            console_.iteration(report);
        }
        trainer_.queue().set_profile(nullptr);
        if (iteration <= config_.run.iterations) {
            console_.line(fmt::format("stopped by {} at an iteration boundary",
                                      stopped_by_ == SIGINT ? "SIGINT" : "SIGTERM"));
        }
        if (!prediction_.empty()) {
            console_.line(fmt::format("prediction  {}", prediction_.to_string()));
        }
        if (profiled_seconds > 0) {
            console_.line(format_profile(profile, profiled_seconds, peak_flops_per_second_));
        }
        save_weights();
    }

private:
    // Ranks share the machine, so all measure at once, and the sum is what they can do together.
    double peak() {
        double rate = config_.run.iterations > 0 ? kernels::measure_matmul_flops_per_second(
                                                       trainer_.queue(), trainer_.machine().compute)
                                                 : 1;
        comm::all_reduce_values(trainer_.queue(), *trainer_.world().all, std::span(&rate, 1),
                                comm::ReduceOp::kSum);
        return rate;
    }

    void start() {
        if (files_ && !files_->earlier().empty()) {
            console_.line(fmt::format("folder      an earlier run's files were moved to {}",
                                      files_->earlier()));
        }
        if (prometheus_) {
            console_.line(
                fmt::format("monitor     http://127.0.0.1:{}/metrics", prometheus_->port()));
        }
        if (trainer_.world().is_first()) {
            print_head(console_, config_, trainer_, peak_flops_per_second_);
        }
        if (trainer_.can_validate() && config_.run.iterations > 0) {
            console_.line(fmt::format("start       validation {:.4f}", trainer_.validate()));
        }
    }

    // A signal may reach some ranks only, or reach them in different iterations.
    bool stop_requested() {
        double signal = stop_.received();
        comm::all_reduce_values(trainer_.queue(), *trainer_.world().all, std::span(&signal, 1),
                                comm::ReduceOp::kMax);
        stopped_by_ = static_cast<int>(signal);
        return stopped_by_ != 0;
    }

    IterationReport run_iteration(std::int64_t iteration) {
        IterationReport report;
        try {
            report = trainer_.run_iteration(iteration);
        } catch (const NonFiniteError& error) {
            // On all ranks. Weights that are still good must not be lost with the run.
            save_weights();
            throw NonFiniteError(fmt::format("{}. The weights before it are in {}/weights",
                                             error.what(), config_.run.folder));
        }
        report.planner = config_.planner.name;
        OpProfile* profile = trainer_.queue().profile();
        trainer_.queue().set_profile(nullptr);
        const bool is_due =
            iteration == config_.run.iterations ||
            (config_.run.validate_every > 0 && iteration % config_.run.validate_every == 0);
        if (trainer_.can_validate() && is_due) {
            report.validation_loss = trainer_.validate();
        }
        trainer_.queue().set_profile(profile);
        return report;
    }

    // Nobody goes on, or ends, before they are written.
    void save_weights() {
        if (files_) {
            trainer_.save_weights(files_->weights());
            console_.line(fmt::format("weights     {}", files_->weights()));
        }
        trainer_.world().all->barrier(trainer_.queue());
    }

    const config::Config& config_;
    Trainer& trainer_;
    std::optional<RunFiles>& files_;
    std::optional<Prometheus>& prometheus_;
    PredictionSummary prediction_;
    double peak_flops_per_second_;
    Console console_;
    StopSignal stop_;
    int stopped_by_ = 0;  // the signal, on all ranks alike
};

}  // namespace

void run_training(const config::Config& asked, const World& world, const TrainOptions& options) {
    Queue control =
        Queue::cpu(1);  // for what ranks tell each other before they have one of their own
    config::Config config = asked;
    Outputs outputs;
    run_on_all(control, world, [&] {  // first: a port that is taken should not cost time
        if (world.is_first() && config.monitor.prometheus_port != config::kOff) {
            outputs.prometheus.emplace(config, world.size());
        }
    });
    const std::unique_ptr<Trainer> trainer = make_trainer(config, world, control);
    if (config.run.iterations > 0) {
        trainer->measure_costs();
    }
    run_on_all(control, world, [&] {
        if (world.is_first()) {
            outputs.files.emplace(config, *trainer);
        }
    });
    Run(config, *trainer, outputs).train(options.profile_ops);
}

}  // namespace dcp::train
