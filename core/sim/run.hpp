// A run in virtual time: batch after batch is planned, replayed and reduced, as training would.
//
// Planning happens beside the iteration before; only what it takes longer than that counts as time
// of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/lengths/stream.hpp"
#include "core/plan/planner.hpp"
#include "core/sim/replay.hpp"

namespace dcp::sim {

struct Stragglers {
    double share = 0;        // of the ranks
    double slowdown = 1;     // their time over that of others
    bool is_known = false;   // the planner is told
    bool is_moving = false;  // other ranks every iteration; nobody can be told
};

struct RunSettings {
    plan::Problem problem;  // everything but the sequences
    lengths::BatchSize batch;
    bool is_elastic = false;  // idle time is filled with the sequences that come next
    std::int64_t iterations = 1;
    std::int64_t sequences = 0;  // ends the run too; 0: only `iterations` does
    double once_seconds = 0;     // of an iteration, beside what the cost model has
    Noise noise;
    Stragglers stragglers;
    // How long planning takes: below 0 what it takes here, else so many seconds.
    double plan_seconds = -1;
    // Operations of training on a sequence, and of a rank in a second at most; unknown: empty, 0.
    std::function<double(const plan::Sequence&)> training_flops;
    double peak_flops = 0;
};

struct IterationRecord {
    std::int64_t sequences = 0;
    std::int64_t tokens = 0;
    double seconds = 0;        // all of it
    double steps_seconds = 0;  // until the last rank has finished its steps
    double exposed_seconds = 0;
    double plan_seconds = 0;  // as planning took here
    double predicted_seconds = 0;
    double bound_seconds = 0;
    double imbalance_ratio = 0;  // mean over ranks of idle seconds / (seconds without planning)
    double busy_mean = 0;        // over ranks: seconds in steps / steps_seconds
    double busy_variance = 0;
    double peak_bytes = 0;  // of the largest rank
};

struct RunReport {
    std::string planner;
    int ranks = 0;
    std::vector<IterationRecord> iterations;
    std::int64_t sequences = 0;
    std::int64_t tokens = 0;
    double seconds = 0;
    double exposed_seconds = 0;
    double once_seconds = 0;     // reductions and optimizer, all iterations
    double gap = 0;              // predicted seconds over the bound, minus 1, of the sums
    double imbalance_ratio = 0;  // mean over iterations, by their time
    double busy_mean = 0;        // the same
    double busy_variance = 0;    // the same, of the variance over ranks
    double peak_bytes = 0;       // of the largest rank, ever
    double mean_peak_bytes = 0;  // mean over ranks of their largest
    double budget_bytes = 0;
    double utilization = 0;       // training operations / (ranks * peak * seconds); 0: unknown
    double plan_seconds = 0;      // mean
    double recomputed_share = 0;  // of tokens times layers
    std::int64_t steps = 0;
    std::int64_t guessed_steps = 0;  // outside of what the cost model knows
    std::map<int, std::int64_t> tokens_by_degree;
    std::map<int, std::int64_t> steps_by_recompute_layers;

    double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

// PlanError where a sequence fits nowhere.
RunReport run(const RunSettings& settings, const plan::Planner& planner, lengths::Stream& stream);

}  // namespace dcp::sim
