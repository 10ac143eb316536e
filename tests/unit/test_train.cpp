// The training loop: first loss, order and coverage of samples, flat memory, refusals, schedules,
// the run folder.
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "tests/support/dataset_files.hpp"
#include "tests/support/reference_model.hpp"
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/copy.hpp"
#include "core/base/errors.hpp"
#include "core/base/rng.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/schedule.hpp"
#include "core/train/stop_signal.hpp"
#include "core/train/trainer.hpp"

using namespace dcp;
using test::DatasetFolder;

namespace {

constexpr std::int64_t kVocab = 31;

void write_documents(const std::string& prefix, const std::vector<std::int64_t>& lengths) {
    test::documents_of(test::random_documents(lengths, kVocab)).write(prefix);
}

// Skewed: most short, some long.
std::vector<std::int64_t> skewed_lengths(std::int64_t count, std::int64_t longest) {
    const CounterRng rng(2, "lengths", 0);
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < count; ++i) {
        const double u = rng.uniform(static_cast<std::uint64_t>(i));
        lengths.push_back(1 +
                          static_cast<std::int64_t>(std::pow(u, 4) * static_cast<double>(longest)));
    }
    return lengths;
}

config::Config tiny_config(const std::string& prefix) {
    config::Config config;
    config.model.hidden = 16;
    config.model.layers = 2;
    config.model.heads = 2;
    config.model.kv_heads = 1;
    config.model.head_dim = 8;
    config.model.ffn = 24;
    config.model.vocab = kVocab;
    config.data.train = {prefix};
    config.data.max_tokens = 64;
    config.batch.sequences = 8;
    config.optimizer.lr = 1e-3;
    config.run.dtype = config::ComputeType::kFloat32;
    config.run.threads = 2;
    config.memory.budget = std::int64_t{256} << 20;
    return config;
}

test::Weights weights_of(train::Trainer& trainer) {
    test::Weights weights;
    for (const model::ParameterSlot& slot : trainer.model().layout().slots()) {
        const float* values = trainer.model().parameters().as<float>() + slot.offset;
        weights[slot.name] = std::vector<double>(values, values + slot.shape.num_elems());
    }
    return weights;
}

// Token-mean loss of these sequences by the double-precision model.
double reference_loss(const config::Config& config,
                      train::Trainer& trainer,
                      const std::vector<std::int64_t>& sequences) {
    double loss = 0;
    double tokens = 0;
    for (const std::int64_t sequence : sequences) {
        const auto length = static_cast<std::size_t>(trainer.table().tokens(sequence));
        std::vector<std::int32_t> inputs(length), targets(length);
        trainer.table().load(sequence, inputs, targets);
        for (const double value :
             test::reference_losses(config.model, weights_of(trainer), inputs, targets)) {
            loss += value;
            tokens += 1;
        }
    }
    return loss / tokens;
}

template <class Action>
std::string message_of(Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("the loss of the first iteration is that of the double-precision model",
          "[unit][train]") {
    const DatasetFolder folder;
    write_documents(folder / "text", skewed_lengths(40, 150));
    auto config = tiny_config(folder / "text");
    config.batch.micro_batch_tokens = GENERATE(64, 1000);  // several micro-batches, or one
    train::Trainer trainer(config);
    train::Trainer same(config);
    const auto report = trainer.run_iteration(1);
    const double expected = reference_loss(config, same, report.sequences);
    CHECK(report.loss == Approx(expected).epsilon(20 * epsilon(DType::kFloat32)));
    CHECK(same.run_iteration(1).loss == report.loss);  // bitwise
}

TEST_CASE("how a batch is cut into micro-batches does not change the training", "[unit][train]") {
    const DatasetFolder folder;
    write_documents(folder / "text", skewed_lengths(60, 150));
    std::vector<double> losses;
    for (const std::int64_t limit : {64, 200, 5000}) {
        for (const std::int64_t recompute_layers : {0, 1}) {
            auto config = tiny_config(folder / "text");
            config.batch.micro_batch_tokens = limit;
            config.model.recompute_layers = recompute_layers;
            train::Trainer trainer(config);
            double last = 0;
            for (std::int64_t iteration = 1; iteration <= 20; ++iteration) {
                last = trainer.run_iteration(iteration).loss;
            }
            losses.push_back(last);
        }
    }
    for (const double loss : losses) {
        CHECK(loss == Approx(losses[0]).epsilon(1e-4));  // design section 5
    }
    CHECK(losses[0] == losses[1]);  // recomputation: bitwise
}

TEST_CASE("loss_normalization: sample weighs every sequence alike", "[unit][train]") {
    const DatasetFolder folder;
    write_documents(folder / "text", {2, 65, 3, 40});
    auto config = tiny_config(folder / "text");
    config.batch.sequences = 4;
    config.run.loss_normalization = config::LossNormalization::kSample;
    train::Trainer trainer(config);
    train::Trainer same(config);
    double expected = 0;
    const auto report = trainer.run_iteration(1);
    for (const std::int64_t sequence : report.sequences) {
        expected += reference_loss(config, same, {sequence}) / 4;
    }
    CHECK(report.loss == Approx(expected).epsilon(20 * epsilon(DType::kFloat32)));
}

TEST_CASE("an epoch trains every sequence exactly once, held-out documents never",
          "[unit][train]") {
    const DatasetFolder folder;
    write_documents(folder / "text", skewed_lengths(50, 200));
    auto config = tiny_config(folder / "text");
    config.data.validation_documents = 7;
    config.batch.sequences = 5;
    train::Trainer trainer(config);
    REQUIRE(trainer.can_validate());
    const std::int64_t epoch = trainer.split().num_training();
    std::map<std::int64_t, int> seen;
    std::int64_t drawn = 0;
    for (std::int64_t iteration = 1; drawn + 5 <= epoch; ++iteration) {
        for (const std::int64_t sequence : trainer.run_iteration(iteration).sequences) {
            ++seen[sequence];
            ++drawn;
        }
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == drawn);
    for (std::int64_t index = 0; index < trainer.num_validation(); ++index) {
        CHECK(seen.count(trainer.split().validation(index)) == 0);
    }
}

TEST_CASE("memory stays flat over 1000 iterations of random lengths", "[unit][train][memory]") {
    const DatasetFolder folder;
    write_documents(folder / "text", skewed_lengths(500, 64));
    auto config = tiny_config(folder / "text");
    config.model.layers = 1;
    config.batch.sequences = 6;
    train::Trainer trainer(config);
    const std::int64_t held = trainer.arena().current_bytes();
    std::int64_t reserved_after_warmup = 0;
    for (std::int64_t iteration = 1; iteration <= 1000; ++iteration) {
        const auto report = trainer.run_iteration(iteration);
        REQUIRE(report.peak_bytes <= trainer.predicted_peak_bytes());
        REQUIRE(trainer.arena().current_bytes() == held);
        if (iteration == 300) {
            reserved_after_warmup = trainer.arena().reserved_bytes();
        }
    }
    CHECK(trainer.arena().reserved_bytes() <= trainer.predicted_peak_bytes());
    CHECK(static_cast<double>(trainer.arena().reserved_bytes()) <=
          1.01 * static_cast<double>(reserved_after_warmup));
}

TEST_CASE("a budget that the largest micro-batch exceeds is refused before training",
          "[unit][train][memory]") {
    const DatasetFolder folder;
    write_documents(folder / "text", {65, 500, 30});
    auto config = tiny_config(folder / "text");
    config.data.max_tokens = 400;
    config.run.threads = 1;
    config.planner.recompute = "no";
    config.batch.micro_batch_tokens = 400;
    train::Trainer fits(config);
    config.memory.budget = fits.predicted_peak_bytes() + Arena::kAlignmentBytes;
    CHECK_NOTHROW(train::Trainer(config));
    config.memory.budget = fits.predicted_peak_bytes() - Arena::kAlignmentBytes;
    const std::string message = message_of([&] { train::Trainer refused(config); });
    INFO(message);
    CHECK(message.find("memory.budget is too small") != std::string::npos);
    CHECK(message.find("400 tokens") != std::string::npos);
    CHECK(message.find("planner.recompute auto") != std::string::npos);
    config.memory.budget = 1 << 16;
    CHECK_THROWS_AS(train::Trainer(config), ConfigError);
    const std::string too_large = message_of([&] { train::Trainer refused(config); });
    CHECK(too_large.find("too small for the model") != std::string::npos);
    CHECK(too_large.find("micro_batch") == std::string::npos);  // would not help
}

TEST_CASE("where a micro-batch does not fit, as many layers recompute as must",
          "[unit][train][memory]") {
    const DatasetFolder folder;
    write_documents(folder / "text", {65, 500, 30, 200, 90, 310});
    auto config = tiny_config(folder / "text");
    config.model.layers = 4;
    config.data.max_tokens = 400;
    config.batch.sequences = 3;
    train::Trainer roomy(config);
    config.planner.recompute = "yes";
    config.model.recompute_layers = 4;
    const std::int64_t least = train::Trainer(config).predicted_peak_bytes();
    config.planner.recompute = "auto";
    config.model.recompute_layers = 0;
    REQUIRE(least < roomy.predicted_peak_bytes());
    config.memory.budget = (least + roomy.predicted_peak_bytes()) / 2;
    train::Trainer tight(config);
    CHECK(tight.micro_batch_tokens() == roomy.micro_batch_tokens());
    for (int iteration = 1; iteration <= 4; ++iteration) {
        const auto expected = roomy.run_iteration(iteration);
        const auto report = tight.run_iteration(iteration);
        CHECK(report.loss == expected.loss);  // bitwise
        CHECK(report.grad_norm == expected.grad_norm);
        CHECK(report.peak_bytes <= config.memory.budget);
    }
    CHECK(tight.arena().reserved_bytes() < roomy.arena().reserved_bytes());
    // Below even that, micro-batches become smaller; sequences that do not fit are refused.
    config.memory.budget = least - Arena::kAlignmentBytes;
    const std::string message = message_of([&] { train::Trainer refused(config); });
    INFO(message);
    CHECK(message.find("the longest sequence has 400 tokens, but 1 rank of 39") !=
          std::string::npos);
    CHECK(message.find("4 of 4 layers recomputed") != std::string::npos);
}

TEST_CASE("documents that are not split cost no memory for their limit", "[unit][train][memory]") {
    const DatasetFolder folder;
    write_documents(folder / "text", {65, 500, 30});
    auto config = tiny_config(folder / "text");
    config.data.max_tokens = 1000;
    config.data.validation_documents = 1;
    const std::int64_t bytes = train::Trainer(config).predicted_peak_bytes();
    config.data.max_tokens = std::int64_t{1} << 31;
    train::Trainer trainer(config);
    CHECK(trainer.table().num_sequences() == 3);
    CHECK(trainer.micro_batch_tokens() == 8192);
    CHECK(trainer.predicted_peak_bytes() >= bytes);
    CHECK(std::isfinite(trainer.run_iteration(1).loss));
}

TEST_CASE("a stop signal is announced once", "[unit][train]") {
    const DatasetFolder folder;
    const std::string path = folder / "stderr";
    const int earlier = ::dup(STDERR_FILENO);
    const auto announce = [&](bool speaks) {
        const train::StopSignal stop(speaks);
        std::raise(SIGTERM);
        CHECK(stop.requested());
    };
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDERR_FILENO);
    announce(true);
    announce(false);
    ::dup2(earlier, STDERR_FILENO);
    ::close(file);
    ::close(earlier);
    CHECK(test::read_file(path) ==
          "dcp: SIGTERM: ending after this iteration; a second one ends at once\n");
}

TEST_CASE("a loss that is not finite stops the run and updates nothing", "[unit][train]") {
    const DatasetFolder folder;
    write_documents(folder / "text", skewed_lengths(40, 60));
    train::Trainer trainer(tiny_config(folder / "text"));
    trainer.run_iteration(1);
    const model::ParameterSlot& slot =
        trainer.model().layout().slot("model.layers.1.mlp.up_proj.weight");
    trainer.model().parameters().as<float>()[slot.offset + 5] =
        std::numeric_limits<float>::quiet_NaN();
    trainer.model().prepare(trainer.queue());
    const Tensor parameters = trainer.model().parameters();
    std::vector<std::byte> before(static_cast<std::size_t>(parameters.num_bytes()));
    copy_to_host(trainer.queue(), before, parameters);
    const std::string message = message_of([&] { trainer.run_iteration(2); });
    INFO(message);
    CHECK(message.find("iteration 2") != std::string::npos);
    CHECK(message.find("'model.layers.1.mlp.up_proj.weight'") != std::string::npos);
    CHECK(message.find("sequences ") != std::string::npos);
    CHECK(std::memcmp(before.data(), parameters.data(), before.size()) == 0);
}

TEST_CASE("what this machine or build cannot do is refused", "[unit][train]") {
    CHECK_THROWS_AS(
        train::resolve_machine(config::Device::kCuda, config::ComputeType::kAuto, 1, 1 << 20),
        UnsupportedError);
    const auto machine =
        train::resolve_machine(config::Device::kAuto, config::ComputeType::kFloat32, 3, 1 << 20);
    CHECK(machine.threads == 3);
    CHECK(machine.compute == DType::kFloat32);
    CHECK(machine.budget_bytes == 1 << 20);
    CHECK(train::available_processors() >= 1);
}

TEST_CASE("schedules", "[unit][train]") {
    const auto rate = [](config::ScheduleKind kind, std::int64_t iteration) {
        return train::Schedule({.kind = kind, .warmup = 10, .final = 0.1, .decay_share = 0.2}, 2.0,
                               110)
            .learning_rate(iteration);
    };
    using Kind = config::ScheduleKind;
    for (const Kind kind : {Kind::kConstant, Kind::kLinear, Kind::kCosine, Kind::kWsd}) {
        CHECK(rate(kind, 1) == Approx(0.2));
        CHECK(rate(kind, 5) == Approx(1.0));
        CHECK(rate(kind, 10) == Approx(2.0));
        CHECK(rate(kind, 110) == Approx(kind == Kind::kConstant ? 2.0 : 0.2));
    }
    CHECK(rate(Kind::kLinear, 60) == Approx(2.0 * 0.55));
    CHECK(rate(Kind::kCosine, 60) == Approx(2.0 * 0.55));
    CHECK(rate(Kind::kCosine, 35) == Approx(2.0 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2)));
    CHECK(rate(Kind::kWsd, 88) == Approx(2.0));
    CHECK(rate(Kind::kWsd, 99) == Approx(2.0 * 0.55));
    CHECK(train::Schedule({.warmup = 0}, 1.0, 10).learning_rate(1) > 0.9);
}

TEST_CASE("a run folder keeps what an earlier run left and admits one process", "[unit][train]") {
    const DatasetFolder folder;
    const std::string path = folder / "run";
    {
        const train::RunFolder run(path);
        CHECK(run.earlier().empty());
        run.write("config.yaml", "first: 1\n");
        train::LineFile metrics(run.file("metrics.jsonl"));
        metrics.append("{}");
        CHECK(test::read_file(path + "/metrics.jsonl") ==
              "{}\n");  // on disk before the file is closed
        run.write("trace-000005.json", "{}");
        run.write("events.out.tfevents.1.host.2", "");
        run.write("notes.txt", "");
        CHECK(message_of([&] { train::RunFolder second(path); }).find("another process") !=
              std::string::npos);
    }
    const train::RunFolder run(path);
    CHECK(run.earlier() == path + "/earlier-1");
    CHECK(test::read_file(path + "/earlier-1/config.yaml") == "first: 1\n");
    CHECK(std::filesystem::exists(path + "/earlier-1/trace-000005.json"));
    CHECK(std::filesystem::exists(path + "/earlier-1/events.out.tfevents.1.host.2"));
    CHECK_FALSE(std::filesystem::exists(path + "/metrics.jsonl"));
    CHECK(std::filesystem::exists(path + "/notes.txt"));  // not of a run
}

TEST_CASE("a full disk is an error that names the file", "[unit][train]") {
    train::LineFile full("/dev/full");
    const std::string message = message_of([&] { full.append("x"); });
    CHECK(message.find("/dev/full") != std::string::npos);
    CHECK(message.find("No space left") != std::string::npos);
}

TEST_CASE("a line that does not fit is cut off again", "[unit][train]") {
    const DatasetFolder folder;
    const std::string path = folder / "lines";
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    {
        train::LineFile lines(path);
        lines.append("whole");
        const rlimit small{10, before.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
        CHECK_THROWS_AS(lines.append("does not fit"), IoError);
    }
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK(test::read_file(path) == "whole\n");
}

TEST_CASE("a run folder that cannot be one is a configuration error", "[unit][train]") {
    const DatasetFolder folder;
    test::write_file(folder / "file", "text");
    CHECK_THROWS_AS(train::RunFolder(folder / "file"), ConfigError);
    CHECK_THROWS_AS(train::RunFolder(folder / "file/below"), ConfigError);
    CHECK_THROWS_AS(train::RunFolder("/proc/run"), ConfigError);
}
