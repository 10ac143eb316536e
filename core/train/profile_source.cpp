#include "core/train/profile_source.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/profile/cache.hpp"
#include "core/profile/samples.hpp"
#include "core/train/cost_learner.hpp"
#include "core/train/file_cost.hpp"

namespace dcp::train {

namespace {

// How long the grid is refined: a run that waits for it should not wait long.
constexpr double kShortSeconds = 4;
constexpr double kLongSeconds = 50;

// Tokens, targets and positions are int32, weights and losses fp32.
constexpr int kLoadedTokenBytes = 5 * 4;

// Of the work that shows how fast the machine is: enough for products to be as they are in
// training.
constexpr std::int64_t kReferenceTokens = 128;

std::vector<plan::Strategy> strategies_of(const config::Config& config,
                                          const std::vector<int>& degrees) {
    const plan::Heads heads{.query = static_cast<int>(config.model.heads),
                            .key_value = static_cast<int>(config.model.kv_heads)};
    std::vector<plan::Strategy> strategies;
    for (const int degree : degrees) {
        // The one planner that does not keep to the preferred strategy.
        if (config.planner.name == "random") {
            for (const plan::Strategy& each : plan::possible_strategies(degree, heads)) {
                strategies.push_back(each);
            }
        } else {
            strategies.push_back(plan::preferred_strategy(degree, heads));
        }
    }
    return strategies;
}

std::string broadcast_text(Queue& queue, const World& world, const std::string& text, int root) {
    const auto bytes = std::as_bytes(std::span(text));
    const auto said = comm::broadcast_bytes(queue, *world.all, {bytes.begin(), bytes.end()}, root);
    return {reinterpret_cast<const char*>(said.data()), said.size()};
}

// Says on the console that measuring goes on, if it takes long enough to wonder.
class Progress {
public:
    explicit Progress(bool speaks) : speaks_(speaks) {}
    void operator()(int measured, double seconds) {
        constexpr double kInterval = 5;
        if (speaks_ && seconds >= next_) {
            fmt::print("profile     {} micro-batches measured in {}\n", measured,
                       format_seconds(seconds));
            std::fflush(stdout);
            next_ = seconds + kInterval;
        }
    }

private:
    bool speaks_;
    double next_ = 3;
};

}  // namespace

ProfileSource::ProfileSource(const ProfileSubject& subject)
    : subject_(subject),
      profiler_(subject_.model,
                subject_.queue,
                subject_.arena,
                subject_.groups,
                ranks_per_node(subject_.world.topology)),
      key_(make_key()) {
    shares_processors_ = share_processors(subject_.queue, subject_.world, subject_.machine.threads);
    if (shares_processors_) {
        profiler_.set_processors_shared();
    }
    profiler_.set_recompute(subject_.recomputes);
}

// Every node's processor is part of it.
profile::Key ProfileSource::make_key() {
    const World& world = subject_.world;
    std::set<std::string> devices;
    for (int rank = 0; rank < world.size(); ++rank) {
        if (world.topology.local_rank_of_rank[static_cast<std::size_t>(rank)] == 0) {
            devices.insert(broadcast_text(subject_.queue, world, profile::describe_device(), rank));
        }
    }
    return profile::make_key({.model = subject_.config.model,
                              .compute = subject_.machine.compute,
                              .threads = subject_.machine.threads,
                              .strategies = limits().strategies,
                              .topology = world.topology.to_string(),
                              .device = fmt::format("{}", fmt::join(devices, " + ")),
                              .recomputes = subject_.recomputes});
}

profile::GridLimits ProfileSource::limits() const {
    return {.strategies = strategies_of(subject_.config, subject_.degrees),
            .rank_tokens = subject_.rank_tokens,
            .batch_tokens = subject_.batch_tokens,
            .longest_tokens = subject_.longest_tokens};
}

// A turn lasts some milliseconds, and a sample several turns.
profile::Effort ProfileSource::effort() const {
    profile::Effort effort;
    if (shares_processors_) {
        effort.sample_seconds = 0.04;
    }
    return effort;
}

// Where ranks take turns on a processor, what a small piece of work takes says nothing.
plan::ProfileReference ProfileSource::usable(plan::ProfileReference reference) const {
    return shares_processors_ || reference.tokens > subject_.rank_tokens ? plan::ProfileReference{}
                                                                         : reference;
}

// One look can fall into a bad moment: where it finds something, two more decide.
std::vector<double> ProfileSource::slowness_now() {
    constexpr int kLooks = 3;
    profiler_.set_reference(usable(profile_.reference));
    if (profiler_.reference().tokens == 0) {
        return {};
    }
    std::vector<std::vector<double>> of_ranks;
    for (int look = 0; look < kLooks; ++look) {
        const std::vector<double> now = profiler_.reference_slowness();
        of_ranks.resize(now.size());
        for (std::size_t rank = 0; rank < now.size(); ++rank) {
            of_ranks[rank].push_back(now[rank]);
        }
        if (look == 0 && std::none_of(now.begin(), now.end(), is_clear_slowness)) {
            break;
        }
    }
    std::vector<double> medians;
    for (const std::vector<double>& looks : of_ranks) {
        medians.push_back(profile::median(looks));
    }
    return medians;
}

// Rank 0 reads, and all get what it has read.
bool ProfileSource::read() {
    const World& world = subject_.world;
    const bool is_auto = subject_.config.profile == config::kAutoProfile;
    std::string text;
    std::string origin;
    run_on_all(subject_.queue, world, [&] {
        if (!world.is_first()) {
            return;
        }
        std::string problem;
        std::optional<profile::Stored> stored =
            is_auto ? profile::find(profile::cache_folder(), key_, problem)
                    : profile::load(subject_.config.profile, key_);
        try {
            if (stored) {
                check_profile(stored->profile, subject_.config.model, world.size(),
                              ranks_per_node(world.topology), stored->path);
            }
        } catch (const ConfigError& error) {
            if (!is_auto) {
                throw;
            }
            problem = error.what();
            stored.reset();
        }
        if (!problem.empty()) {
            fmt::print(stderr, "dcp: warning: {}; measuring again\n", problem);
        }
        if (stored) {
            text = plan::to_json(stored->profile);
            origin = fmt::format("profile {}, {} old", stored->path,
                                 format_seconds(stored->age_seconds));
        }
    });
    text = broadcast_text(subject_.queue, world, text, 0);
    origin_ = broadcast_text(subject_.queue, world, origin, 0);
    if (!text.empty()) {
        profile_ = plan::parse_profile(text);
    }
    return !text.empty();
}

void ProfileSource::obtain() {
    const std::size_t before = read() ? profile_.points.size() : 0;
    complete(kShortSeconds);
    if (subject_.config.profile == config::kAutoProfile && profile_.points.size() > before) {
        keep();
    }
}

void ProfileSource::measure() {
    profile_ = {};
    complete(kLongSeconds);
}

// Whatever of the grid is not there yet.
void ProfileSource::complete(double refine_seconds) {
    const World& world = subject_.world;
    const std::vector<plan::ProfilePoint> known = profile_.points;
    if (!known.empty() && profile::missing_requests(known, limits()).empty()) {
        return;
    }
    const profile::GridResult result = profile::measure_grid(
        profiler_, subject_.queue, *world.all,
        {.limits = limits(),
         .known = known,
         .reference =
             usable(known.empty() ? plan::ProfileReference{.tokens = std::min(kReferenceTokens,
                                                                              subject_.rank_tokens)}
                                  : profile_.reference),
         .effort = effort(),
         .refine_seconds = refine_seconds,
         .progress = Progress(world.is_first())});
    num_left_out_ = result.num_left_out;
    const std::size_t added = result.points.size() - known.size();
    plan::add_points(profile_, with_trainer_bytes(std::span(result.points).subspan(known.size())));
    if (!known.empty()) {
        origin_ += fmt::format("; {} more micro-batches measured in {}", added,
                               format_seconds(result.seconds));
        return;
    }
    origin_ = fmt::format("{} micro-batches measured in {}", added, format_seconds(result.seconds));
    const config::ModelConfig& model = subject_.config.model;
    const UpdateSeconds update = subject_.time_update();
    // Parts of the optimizer's states may differ by a few elements.
    double states = static_cast<double>(subject_.arena.current_bytes(MemoryCategory::kOptimizer));
    double replicated = static_cast<double>(subject_.arena.current_bytes()) - states;
    comm::all_reduce_values(subject_.queue, *world.all, std::span(&states, 1),
                            comm::ReduceOp::kMax);
    comm::all_reduce_values(subject_.queue, *world.all, std::span(&replicated, 1),
                            comm::ReduceOp::kMax);
    profile_.name =
        fmt::format("{} of {} layers, hidden {}", model.kind, model.layers, model.hidden);
    profile_.measured = key_;
    profile_.layers = static_cast<int>(model.layers);
    profile_.heads = {.query = static_cast<int>(model.heads),
                      .key_value = static_cast<int>(model.kv_heads)};
    profile_.ranks_per_node = ranks_per_node(world.topology);
    profile_.may_recompute = subject_.recomputes;
    profile_.budget_bytes = static_cast<double>(subject_.arena.budget_bytes());
    profile_.replicated_bytes = replicated;
    profile_.sharded_bytes = states * world.size();
    profile_.fixed_seconds = result.ends.fixed_seconds;
    profile_.token_seconds = result.ends.token_seconds;
    // The residual stream and its gradient.
    profile_.token_bytes = static_cast<double>(
        kLoadedTokenBytes +
        2 * model.hidden * static_cast<std::int64_t>(size_bytes(subject_.machine.compute)));
    profile_.reduction_seconds = update.reduction;
    profile_.optimizer_seconds = update.optimizer;
    profile_.reference = result.reference;
    profile_.speeds = result.speeds;
}

void ProfileSource::keep() {
    const std::string folder = profile::cache_folder();
    std::string kept;
    if (subject_.world.is_first() && !folder.empty()) {
        const std::string path = fmt::format("{}/{}", folder, profile::file_name(key_));
        try {
            profile::store(path, profile_);
            kept = ", kept in " + path;
        } catch (const Error& error) {  // the run does not need it
            fmt::print(stderr, "dcp: warning: the profile is not kept: {}\n", error.what());
        }
    }
    origin_ += broadcast_text(subject_.queue, subject_.world, kept, 0);
}

void ProfileSource::extend(std::span<const profile::Request> requests) {
    std::vector<plan::ProfilePoint> points;
    // Training waits.
    profile::Effort quick = effort();
    quick.relative_error = 0.05;
    quick.least_samples = 2;
    quick.most_samples = 4;
    for (const profile::Measurement& measured : profiler_.measure(requests, quick)) {
        points.push_back(measured.point);
    }
    plan::add_points(profile_, with_trainer_bytes(points));
}

void ProfileSource::write(const std::string& path) const {
    profile::store(path, profile_);
}

// What a step needs beside its layers: every tensor that is loaded may be padded, and an iteration
// needs `floor_bytes` at its end however small its steps were.
std::vector<plan::ProfilePoint> ProfileSource::with_trainer_bytes(
    std::span<const plan::ProfilePoint> points) const {
    constexpr double kPaddedTensors = 7 + 2;  // of a micro-batch, and around it
    const auto floor = static_cast<double>(subject_.floor_bytes);
    std::vector<plan::ProfilePoint> padded(points.begin(), points.end());
    for (plan::ProfilePoint& point : padded) {
        point.working_bytes += kPaddedTensors * static_cast<double>(Arena::kAlignmentBytes);
        point.working_bytes = std::max(
            point.working_bytes,
            floor - static_cast<double>(subject_.config.model.layers) * point.checkpoint_bytes);
    }
    return padded;
}

}  // namespace dcp::train
