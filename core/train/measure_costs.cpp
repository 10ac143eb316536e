// The trainer before its first iteration: where the costs that it plans with come from.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "comm/control.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/profile/samples.hpp"
#include "core/train/rates_probe.hpp"
#include "core/train/trainer.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// A curve needs one number of tokens in two shapes.
constexpr std::int64_t kFewestProfiledTokens = 2;

// No machine is so much slower than it was, or faster.
constexpr double kMostSlowness = CostCorrection::kMostPace;

}  // namespace

void Trainer::measure_costs() {
    if (share_processors(queue_, world_, machine_.threads)) {
        plans_->set_processors_shared();
    }
    const bool is_chosen =
        config_.profile != config::kAutoProfile && config_.profile != config::kNoProfile;
    if (!config_.planner.cost.empty()) {
        cost_origin_ = config_.planner.cost;
    } else if (world_.size() == 1) {  // packing needs no costs: one that is given only predicts
        if (is_chosen) {
            plan_by_profile();
        }
    } else if (config_.profile == config::kNoProfile ||
               micro_batch_tokens_ < kFewestProfiledTokens) {
        plan_by_rates();
    } else {
        plan_by_profile();
    }
}

void Trainer::plan_by_profile() {
    profile_ = std::make_unique<ProfileSource>(profile_subject());
    profile_->obtain();
    use_profile();
    cost_origin_ = profile_->origin();
    const std::vector<double> slowness = profile_->slowness_now();
    run_on_all(queue_, world_, [&] {  // all know all of them
        for (const double rank : slowness) {
            if (world_.is_first() && (rank > kMostSlowness || rank < 1 / kMostSlowness)) {
                throw ConfigError(fmt::format(
                    "{}: a small piece of work takes {:.3g} times as long here as the profile says "
                    "(its 'reference'): it is not of this machine. Measure anew with `dcp profile`",
                    cost_origin_, rank));
            }
        }
    });
    plans_->set_slowness(slowness);
    const double now = slowness.empty() ? 1 : profile::median(slowness);
    if (is_clear_slowness(now)) {
        cost_origin_ += fmt::format("; now ranks take {:.2f} times as long", now);
    }
}

void Trainer::use_profile() {
    plans_->set_cost(training_cost(profile_->profile(), config_, plans_->rates(),
                                   allowed_degrees(config_, world_.size()), world_.size(),
                                   ranks_per_node(world_.topology)));
}

// Lengths that the profile does not reach are measured when they first come, between two
// iterations; a few at a time, and not for ever: the correction learns of the rest.
void Trainer::measure_new(std::int64_t iteration) {
    constexpr std::size_t kAtATime = 4;
    constexpr std::int64_t kInARun = 48;
    if (!profile_ || num_measured_later_ >= kInARun) {
        return;
    }
    std::vector<profile::Request> requests = plans_->not_measured();
    if (requests.empty()) {
        return;
    }
    requests.resize(std::min(requests.size(), kAtATime));
    const auto start = Clock::now();
    profile_->extend(requests);
    num_measured_later_ += static_cast<std::int64_t>(requests.size());
    use_profile();
    if (world_.is_first()) {
        fmt::print(stderr,
                   "dcp: iteration {}: {} micro-batch{} outside of the profile measured in {}\n",
                   iteration, requests.size(), requests.size() == 1 ? "" : "es",
                   format_seconds(seconds_since(start)));
    }
}

void Trainer::plan_by_rates() {
    const auto start = Clock::now();
    RatesProbe probe(config_.model, queue_, arena_, world_, *groups_, *model_);
    const std::int64_t depth =
        memory_->most_bytes(micro_batch_tokens_, config_.model.recompute_layers) <=
                arena_.budget_bytes()
            ? config_.model.recompute_layers
            : deepest();
    plans_->set_rates(probe.measure(micro_batch_tokens_, depth, plans_->rates()));
    cost_origin_ = fmt::format("rates measured in {}", format_seconds(seconds_since(start)));
}

ProfileSource& Trainer::measure_profile() {
    profile_ = std::make_unique<ProfileSource>(profile_subject());
    profile_->measure();
    return *profile_;
}

ProfileSubject Trainer::profile_subject() {
    const std::int64_t longest = longest_sequence();
    return {.config = config_,
            .machine = machine_,
            .world = world_,
            .queue = queue_,
            .arena = arena_,
            .groups = *groups_,
            .model = *model_,
            .degrees = allowed_degrees(config_, world_.size()),
            .rank_tokens = micro_batch_tokens_,
            .batch_tokens = largest_batch_tokens(),
            .longest_tokens = longest,
            .floor_bytes = optimizer_->scratch_bytes(),
            .recomputes = deepest() > 0,
            .time_update = [this] { return time_update(); }};
}

// The middle of a few, of the slowest rank.
UpdateSeconds Trainer::time_update() {
    constexpr std::size_t kRepeats = 3;
    std::array<std::vector<double>, 2> seconds;
    kernels::fill_zero(queue_, model_->gradients());
    for (std::size_t repeat = 0; repeat <= kRepeats; ++repeat) {
        world_.all->barrier(queue_);
        const auto start = Clock::now();
        optimizer_->reduce(queue_, arena_, model_->gradients());
        queue_.synchronize();
        const double reduced = seconds_since(start);
        optimizer_->global_norm(queue_, arena_, model_->gradients());
        optimizer_->rehearse_step(queue_, model_->parameters(), model_->gradients());
        model_->prepare(queue_);
        queue_.synchronize();
        const double updated = seconds_since(start) - reduced;
        if (repeat > 0) {  // the first warms up
            seconds[0].push_back(reduced);
            seconds[1].push_back(updated);
        }
    }
    std::array<double, 2> medians{profile::median(seconds[0]), profile::median(seconds[1])};
    comm::all_reduce_values(queue_, *world_.all, medians, comm::ReduceOp::kMax);
    return {.reduction = medians[0], .optimizer = medians[1]};
}

}  // namespace dcp::train
