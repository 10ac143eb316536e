// Reader of the configuration of `dcp simulate`: strict, as that of `dcp train` is. An unknown or
// repeated key, a wrong type, a value out of range and keys that contradict each other are
// ConfigErrors that name file, line, key, value and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dcp::config {

struct SimulateFile {
    std::string name;  // for tables and files

    struct Cluster {
        std::string cost;   // a dcp-cost-1 file or a cluster description
        std::string model;  // with a cluster description: the configuration of a model, or a preset
        std::vector<std::int64_t> ranks;
        std::optional<std::int64_t> ranks_per_node;  // none: as the cost file says
        std::optional<std::int64_t> memory_budget;  // of a rank, bytes; none: as the cost file says
    } cluster;

    struct Data {
        std::string distribution;  // one of the three
        std::string lengths;
        std::vector<std::string> dataset;  // prefixes
        std::optional<std::int64_t> max_tokens;
        bool shuffle = true;                    // false: in the order they are stored in
        std::int64_t validation_documents = 0;  // of datasets: held out, as training does it
    } data;

    struct Batch {  // one of the four
        std::optional<std::int64_t> sequences;
        std::optional<std::int64_t> sequences_per_rank;
        std::optional<std::int64_t> tokens;
        std::optional<std::int64_t> tokens_per_rank;
        std::string mode = "fixed";  // or elastic
    } batch;

    struct Run {  // one of the three
        std::optional<std::int64_t> iterations;
        std::optional<std::int64_t> sequences;
        std::optional<std::int64_t> epochs;
        std::int64_t seed = 0;
    } run;

    struct Planner {
        std::vector<std::string> names{"dcp"};
        std::string degrees;    // any, pow2, "1,2,4"; empty: as the cost file says
        std::string recompute;  // yes, no; empty: as the cost file says
        std::string effort = "background";
        std::string step_mode = "independent";  // or rounds, rounds-one-depth
        double plan_seconds = -1;               // below 0: as long as it takes here
    } planner;

    struct Iteration {
        double reduce_bytes = 0;      // of gradients and parameters, each once over the world
        double reduce_bandwidth = 0;  // of a rank, bytes per second
        double reduce_latency = 0;    // of a reduction or a gather, seconds
        double optimizer_seconds = 0;
    } iteration;

    struct Noise {
        double step = 0;
    } noise;

    struct Stragglers {
        double share = 0;
        double slowdown = 1;
        bool known = false;
        bool moving = false;
    } stragglers;
};

// `overrides` are texts like "cluster.ranks=[8, 16]"; of two for one key the later wins.
SimulateFile read_simulate_file(const std::string& path,
                                const std::vector<std::string>& overrides = {});

// The same for YAML in memory; `file` is only what messages call it.
SimulateFile parse_simulate_file(const std::string& text,
                                 const std::string& file,
                                 const std::vector<std::string>& overrides = {});

}  // namespace dcp::config
