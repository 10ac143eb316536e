// One iteration in virtual time: what happens to a plan on ranks that are not quite as predicted.
//
// The rules of plan.hpp hold: every rank runs its steps in the plan's order, a step starts when the
// last of its ranks is free. Its ranks wait for each other all along, so it takes as long as its
// slowest rank. In rounds a step starts when all ranks have finished the round before.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::sim {

// Every rank's share of every step takes exp(spread z - spread^2 / 2) times as long as predicted, z
// normal and drawn anew: mean 1.
struct Noise {
    double spread = 0;  // 0: as predicted
    std::uint64_t seed = 0;
};

struct Timeline {
    double steps_seconds = 0;          // until the last rank is done
    std::vector<double> busy_seconds;  // of each rank: the time its steps took, fillers left out
};

// `speeds` are the real ones of all ranks, 1 = as the cost model describes; empty: all 1. The
// numbers drawn depend on noise.seed, `iteration`, the step's place and the rank alone.
Timeline replay(const plan::Problem& problem,
                const plan::Plan& plan,
                const std::vector<double>& speeds,
                const Noise& noise,
                std::int64_t iteration);

// Speeds of `ranks` ranks of which round(share * ranks), drawn from (seed, draw), take `slowdown`
// times as long.
std::vector<double> straggler_speeds(
    int ranks, double share, double slowdown, std::uint64_t seed, std::uint64_t draw);

}  // namespace dcp::sim
