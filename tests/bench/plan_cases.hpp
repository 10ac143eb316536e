// What bench_plan plans: batches of real lengths on imagined clusters, and how near to the bound
// the planner is meant to come there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::bench {

struct Target {  // makespan over the LP bound
    double mean = 0;
    double worst = 0;
};

struct Case {
    int ranks = 64;
    int sequences = 512;  // of a batch
    bool any_degree = false;
    bool recompute = false;
    std::optional<Target> target;

    std::string name() const;  // "64 x 512", with recompute said
};

// The clusters and batches of the gap table. The target of 64 x 512 depends on the lengths.
std::vector<Case> gap_cases(const std::string& lengths_name);
// Ranks from 8 to 1024 with 8 and 16 sequences a rank, to see how plan time grows.
std::vector<Case> growth_cases();

struct Source {
    std::string lengths;  // file: one length a line
    std::string cost;     // file, of any format
    std::string model;    // file, where the cost is a description of a cluster
    std::int64_t max_tokens = 192 * 1024;
    std::uint64_t seed = 0;

    std::string name() const;  // of the lengths: the file's name without folder and suffix
};

// Problems that differ in their sequences only. They are what `dcp plan` draws with the same
// options. A sequence that the whole cluster could not hold is split, as longer than max_tokens.
std::vector<plan::Problem> problems_of(const Source& source, const Case& what, int batches);

}  // namespace dcp::bench
