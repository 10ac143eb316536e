// The numbers of an iteration by name, for whatever shows them: the keys of metrics.jsonl that are
// numbers are also the tags of TensorBoard and the gauges of Prometheus.
#pragma once

#include <string_view>
#include <vector>

#include "core/train/report.hpp"

namespace dcp::train {

// What a rank does with the time until the last rank has finished its steps; they add up to 1.
struct RankShares {
    double computing = 0;
    double communicating = 0;
    double waiting = 0;  // for the peers of a step, between steps, and after its last
};

std::vector<RankShares> rank_shares(const IterationReport& report);  // by rank

struct MeanVariance {
    double mean = 0;
    double variance = 0;  // over ranks, not of a sample of them
};

MeanVariance over_ranks(const std::vector<RankShares>& shares, double RankShares::*share);

struct Measure {
    std::string_view group;  // of TensorBoard: "speed"
    std::string_view key;    // of metrics.jsonl: "tokens_per_second"
    std::string_view help;   // for Prometheus, one line
    double value = 0;
};

// Those that this iteration has: predictions exist on several ranks only, a validation loss now and
// then.
std::vector<Measure> measures(const IterationReport& report);

}  // namespace dcp::train
