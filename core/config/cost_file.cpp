#include "core/config/cost_file.hpp"

#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/config/section.hpp"

namespace dcp::config {

namespace {

constexpr int kMaxLayers = 100'000;
constexpr int kMaxRanks = 1 << 20;

void read_time(Section time, CostFile& cost) {
    cost.fixed = time.real("fixed");
    cost.per_token = time.real("per_token");
    cost.per_token_squared = time.real("per_token_squared");
    cost.forward_share = time.real("forward_share");
    cost.per_iteration = time.real("per_iteration", 0.0);
    time.finish("fixed, per_token, per_token_squared, forward_share, per_iteration");
}

void read_communication(Section communication, const std::string& file, CostFile& cost) {
    cost.bytes_per_token = communication.real("bytes_per_token", 0.0);
    cost.bandwidth = communication.table("bandwidth", "degree", 1, /*may_be_0=*/false);
    cost.latency = communication.table("latency", "degree", 1, /*may_be_0=*/true);
    communication.finish("bytes_per_token, bandwidth, latency");
    if (cost.bytes_per_token > 0 && cost.bandwidth.empty()) {
        throw ConfigError(
            fmt::format("{}: communication.bandwidth is missing: bytes_per_token needs it", file));
    }
}

void read_memory(Section memory, CostFile& cost) {
    cost.budget = memory.positive("budget");
    cost.static_bytes = memory.real("static");
    cost.layer_bytes_per_token = memory.real("layer_bytes_per_token");
    cost.checkpoint_bytes_per_token = memory.real("checkpoint_bytes_per_token");
    memory.finish("budget, static, layer_bytes_per_token, checkpoint_bytes_per_token");
}

}  // namespace

CostFile parse_cost_file(const std::string& text, const std::string& file) {
    Section top(file, "", load_yaml(text, file), "a cost file");
    if (const std::string format = top.text("format"); format != kCostFormat) {
        throw ConfigError(
            fmt::format("{}: format is '{}', expected {}", file, format, kCostFormat));
    }
    CostFile cost;
    cost.name = top.text("name");
    cost.source = top.has("source") ? top.text("source") : "";
    cost.layers = top.whole("layers", kMaxLayers);
    cost.degrees = top.degrees("degrees");
    cost.ranks_per_node = top.whole("ranks_per_node", kMaxRanks);
    cost.recompute = top.has("recompute") && top.flag("recompute");
    read_time(top.section("time"), cost);
    if (top.has("communication")) {
        read_communication(top.section("communication"), file, cost);
    }
    read_memory(top.section("memory"), cost);
    top.finish(
        "format, name, source, layers, degrees, ranks_per_node, recompute, time, communication, "
        "memory");
    return cost;
}

CostFile read_cost_file(const std::string& path) {
    return parse_cost_file(read_text_file(path, "cost file"), path);
}

std::string read_text_file(const std::string& path, const char* what) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    const bool is_empty = file && file.peek() == std::ifstream::traits_type::eof();
    if (file.bad() || (!is_empty && (!file || !(text << file.rdbuf())))) {
        throw ConfigError(fmt::format("{}: no such {}, or it cannot be read", path, what));
    }
    return text.str();
}

std::string format_of(const std::string& text, const std::string& file) {
    const YAML::Node document = load_yaml(text, file);
    if (!document.IsMap() || !document["format"] || !document["format"].IsScalar()) {
        throw ConfigError(fmt::format(
            "{}: has no key 'format': a cost file says dcp-cost-1, dcp-cluster-1 or dcp-profile-1",
            file));
    }
    return document["format"].Scalar();
}

}  // namespace dcp::config
