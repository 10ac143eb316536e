// `dcp profile`, and how it and `dcp train` begin.
#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/plan/measured_model.hpp"
#include "core/profile/cache.hpp"
#include "core/train/trainer.hpp"

namespace dcp::train {

namespace {

// Ranks whose machines have different memory plan with the least.
void set_common_budget(config::Config& config, const World& world, Queue& control) {
    if (config.memory.budget == config::kAutomatic) {
        std::int64_t negative = -default_host_budget_bytes() / world.ranks_on_node;
        comm::all_reduce_values(control, *world.all, std::span(&negative, 1), comm::ReduceOp::kMax);
        config.memory.budget = -negative;
    }
}

void print_points(const plan::Profile& profile) {
    fmt::print("{:>8} {:>10} {:>8} {:>12} {:>12} {:>12} {:>12}\n", "tokens", "mean length", "SP",
               "forward", "backward", "recompute", "kept");
    for (const plan::ProfilePoint& point : profile.points) {
        const auto tokens = static_cast<double>(point.tokens);
        fmt::print("{:>8} {:>10.0f} {:>8} {:>9.3f} ms {:>9.3f} ms {:>9.3f} ms {:>12}\n",
                   point.tokens, point.squared_tokens / tokens,
                   fmt::format("{} x {}", point.strategy.ulysses, point.strategy.ring),
                   1e3 * point.forward_seconds, 1e3 * point.backward_seconds,
                   1e3 * point.recompute_seconds,
                   format_bytes(static_cast<std::int64_t>(point.kept_bytes)));
    }
}

void print_profile(const ProfileSource& source) {
    plan::Profile profile = source.profile();
    std::sort(profile.points.begin(), profile.points.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.strategy.degree(), a.strategy.ring, a.tokens, -a.squared_tokens) <
               std::tuple(b.strategy.degree(), b.strategy.ring, b.tokens, -b.squared_tokens);
    });
    fmt::print("{}: one of {} layers\n", profile.name, profile.layers);
    print_points(profile);
    fmt::print(
        "beside the layers {:.3f} ms a micro-batch and {:.3f} us a token; an iteration {:.3f} "
        "ms for the gradients and {:.3f} ms for the optimizer\n",
        1e3 * profile.fixed_seconds, 1e6 * profile.token_seconds, 1e3 * profile.reduction_seconds,
        1e3 * profile.optimizer_seconds);
    if (!profile.speeds.empty()) {
        fmt::print("speeds of the ranks: {:.2f}\n", fmt::join(profile.speeds, ", "));
    }
    if (source.num_left_out() > 0) {
        fmt::print(
            "{} micro-batches were left out, as measuring them would take too long: costs "
            "there are careful guesses\n",
            source.num_left_out());
    }
}

}  // namespace

std::unique_ptr<Trainer> make_trainer(config::Config& config, const World& world, Queue& control) {
    set_common_budget(config, world, control);
    std::unique_ptr<Trainer> trainer;
    run_on_all(control, world, [&] {
        if (config.model.has_two_dimensions()) {
            throw UnsupportedError(
                "model.kind is transformer-2d: this version plans for it (`dcp plan --model`) but "
                "cannot train it; train a transformer-1d");
        }
        trainer = std::make_unique<Trainer>(config, world);
    });
    trainer->check_ranks_agree();
    return trainer;
}

void run_profile(const config::Config& asked, const World& world, const std::string& path) {
    Queue control = Queue::cpu(1);
    config::Config config = asked;
    const std::unique_ptr<Trainer> trainer = make_trainer(config, world, control);
    if (trainer->micro_batch_tokens() < 2) {
        throw ConfigError(
            "a rank holds one token at a time: there is nothing to measure. Raise "
            "batch.micro_batch_tokens or memory.budget");
    }
    run_on_all(control, world, [&] {  // measuring may take a minute
        std::error_code error;
        if (world.is_first() && std::filesystem::is_directory(path, error)) {
            throw IoError(fmt::format("--out {}: that is a folder, name a file", path));
        }
    });
    const ProfileSource& source = trainer->measure_profile();
    run_on_all(control, world, [&] {
        if (!world.is_first()) {
            return;
        }
        std::string file = path;
        if (file.empty()) {
            const std::string folder = profile::cache_folder();
            if (folder.empty()) {
                throw ConfigError(
                    "no folder for profiles: set DCP_PROFILE_DIR, XDG_CACHE_HOME or HOME, or give "
                    "--out FILE");
            }
            file = fmt::format("{}/{}", folder, profile::file_name(source.key()));
        }
        source.write(file);
        print_profile(source);
        fmt::print("{}: {}\n", file, source.origin());
    });
}

}  // namespace dcp::train
