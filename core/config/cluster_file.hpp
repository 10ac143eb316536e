// Reader of `dcp-cluster-1`: a machine as a YAML file, for the hardware cost model. Strict, like
// the configuration: an unknown or repeated key, a wrong type and a value out of range are
// ConfigErrors that name file, line and key. docs/planning.md explains every number.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dcp::config {

inline constexpr const char* kClusterFormat = "dcp-cluster-1";

struct ClusterFile {
    struct Attention {       // of one head dimension
        double forward = 0;  // operations a second
        double backward = 0;
        double half_tokens = 0;
        double causal_half_tokens = 0;
    };
    struct Link {
        double bandwidth = 0;  // bytes a second of a rank
        double latency = 0;    // seconds
    };

    std::string name;
    std::string source;
    int ranks_per_node = 1;
    std::vector<int> degrees;  // rising; empty: any degree
    bool recompute = true;

    double memory_bytes = 0;  // of a rank
    double reserved_bytes = 0;

    double peak = 0;  // operations a second
    double product_rate = 0;
    double product_half_width = 0;
    double product_half_outputs = 0;
    std::map<int, Attention> attention;  // by head dimension
    double memory_bandwidth = 0;         // bytes a second

    double operation_seconds = 0;
    double micro_batch_seconds = 0;

    double element_bytes = 0;
    double parameter_bytes = 0;
    double gradient_bytes = 0;
    double optimizer_bytes = 0;
    bool shards_optimizer = true;

    Link node;
    Link network;

    std::map<int, double> speeds;  // of ranks that are not as fast as described
};

ClusterFile read_cluster_file(const std::string& path);

// The same for YAML in memory; `file` is only what messages call it.
ClusterFile parse_cluster_file(const std::string& text, const std::string& file);

}  // namespace dcp::config
