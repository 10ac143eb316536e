// The profile of a run: found in the cache or in a file, or measured on the ranks of the run, and
// extended by what is missing. All ranks hold the same one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/plan/profile.hpp"
#include "core/profile/grid_profiler.hpp"
#include "core/profile/key.hpp"
#include "core/train/machine.hpp"
#include "core/train/world.hpp"

namespace dcp::train {

// Of one iteration, whatever its plan is.
struct UpdateSeconds {
    double reduction = 0;
    double optimizer = 0;
};

// What is profiled, and for which micro-batches. What it refers to must outlive the source.
struct ProfileSubject {
    const config::Config& config;
    const Machine& machine;
    const World& world;
    Queue& queue;
    Arena& arena;
    comm::GroupCache& groups;
    model::Transformer& model;
    std::vector<int> degrees;
    std::int64_t rank_tokens = 0;                // most tokens of a rank's share of a micro-batch
    std::int64_t batch_tokens = 0;               // most tokens of a micro-batch
    std::int64_t longest_tokens = 0;             // of a sequence
    std::int64_t floor_bytes = 0;                // what an iteration needs beside its steps
    bool recomputes = false;                     // some step may recompute layers
    std::function<UpdateSeconds()> time_update;  // collective
};

class ProfileSource {
public:
    explicit ProfileSource(const ProfileSubject& subject);

    // Collective, as everything that follows. config.profile: `auto` takes a profile with this key
    // from the cache or measures and keeps it there; a path is read, ConfigError where it is none
    // or was measured for something else. Sizes that it does not reach are measured.
    void obtain();
    // Measures everything, now, and with patience.
    void measure();

    // Measures these micro-batches between two iterations (core/profile/layer_profiler.hpp says
    // what is overwritten) and adds them to the profile.
    void extend(std::span<const profile::Request> requests);

    // How many times slower every world rank is now than a typical one was when the profile was
    // measured; empty where that cannot be told: the profile does not say how fast that was, or
    // ranks share processors.
    std::vector<double> slowness_now();

    // World rank 0 alone; IoError.
    void write(const std::string& path) const;

    const plan::Profile& profile() const { return profile_; }
    const profile::Key& key() const { return key_; }
    // "measured in 1.8 s, kept in /home/..."
    const std::string& origin() const { return origin_; }
    int num_left_out() const { return num_left_out_; }

private:
    profile::Key make_key();
    profile::GridLimits limits() const;
    profile::Effort effort() const;
    plan::ProfileReference usable(plan::ProfileReference reference) const;
    bool read();
    void complete(double refine_seconds);
    void keep();
    std::vector<plan::ProfilePoint> with_trainer_bytes(
        std::span<const plan::ProfilePoint> points) const;

    ProfileSubject subject_;
    profile::LayerProfiler profiler_;
    bool shares_processors_ = false;
    profile::Key key_;
    plan::Profile profile_;
    std::string origin_;
    int num_left_out_ = 0;
};

}  // namespace dcp::train
