// Reader of `dcp-cost-1`: the closed-form cost model as a YAML file. Strict, like the
// configuration: an unknown or repeated key, a wrong type and a value out of range are ConfigErrors
// that name file, line and key.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dcp::config {

inline constexpr const char* kCostFormat = "dcp-cost-1";

struct CostFile {
    std::string name;
    std::string source;
    int layers = 1;
    std::vector<int> degrees;  // rising; empty: any degree
    int ranks_per_node = 1;
    bool recompute = false;

    double fixed = 0;  // seconds per micro-batch
    double per_token = 0;
    double per_token_squared = 0;
    double forward_share = 0;
    double per_iteration = 0;

    double bytes_per_token = 0;       // exchanged inside a group
    std::map<int, double> bandwidth;  // by degree, bytes per second
    std::map<int, double> latency;    // by degree, seconds per micro-batch

    double budget = 0;  // bytes of a rank
    double static_bytes = 0;
    double layer_bytes_per_token = 0;
    double checkpoint_bytes_per_token = 0;
};

CostFile read_cost_file(const std::string& path);

// The same for YAML in memory; `file` is only what messages call it.
CostFile parse_cost_file(const std::string& text, const std::string& file);

// ConfigError where `what` ("cost file") cannot be read.
std::string read_text_file(const std::string& path, const char* what);

// What the key `format` of a YAML document says; ConfigError where there is none.
std::string format_of(const std::string& text, const std::string& file);

}  // namespace dcp::config
