#include "core/config/cluster_file.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/config/cost_file.hpp"
#include "core/config/section.hpp"

namespace dcp::config {

namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxHeadDim = 1 << 16;

void read_compute(Section compute, ClusterFile& cluster) {
    cluster.peak = compute.positive("peak");
    Section products = compute.section("products");
    cluster.product_rate = products.positive("rate");
    cluster.product_half_width = products.real("half_width");
    cluster.product_half_outputs = products.real("half_outputs");
    products.finish("rate, half_width, half_outputs");
    for (auto& [head_dim, rates] : compute.sections("attention", kMaxHeadDim)) {
        cluster.attention[head_dim] = {.forward = rates.positive("forward"),
                                       .backward = rates.positive("backward"),
                                       .half_tokens = rates.real("half_tokens"),
                                       .causal_half_tokens = rates.real("causal_half_tokens")};
        rates.finish("forward, backward, half_tokens, causal_half_tokens");
    }
    cluster.memory_bandwidth = compute.positive("memory_bandwidth");
    compute.finish("peak, products, attention, memory_bandwidth");
}

void read_bytes(Section bytes, ClusterFile& cluster) {
    cluster.element_bytes = bytes.positive("element");
    cluster.parameter_bytes = bytes.positive("parameter");
    cluster.gradient_bytes = bytes.positive("gradient");
    cluster.optimizer_bytes = bytes.real("optimizer");
    cluster.shards_optimizer = !bytes.has("optimizer_sharded") || bytes.flag("optimizer_sharded");
    bytes.finish("element, parameter, gradient, optimizer, optimizer_sharded");
}

ClusterFile::Link read_link(Section link) {
    const ClusterFile::Link read{.bandwidth = link.positive("bandwidth"),
                                 .latency = link.real("latency")};
    link.finish("bandwidth, latency");
    return read;
}

}  // namespace

ClusterFile parse_cluster_file(const std::string& text, const std::string& file) {
    Section top(file, "", load_yaml(text, file), "a cluster file");
    if (const std::string format = top.text("format"); format != kClusterFormat) {
        throw ConfigError(
            fmt::format("{}: format is '{}', expected {}", file, format, kClusterFormat));
    }
    ClusterFile cluster;
    cluster.name = top.text("name");
    cluster.source = top.has("source") ? top.text("source") : "";
    cluster.ranks_per_node = top.whole("ranks_per_node", kMaxRanks);
    cluster.degrees = top.has("degrees") ? top.degrees("degrees") : std::vector<int>{};
    cluster.recompute = !top.has("recompute") || top.flag("recompute");

    Section memory = top.section("memory");
    cluster.memory_bytes = memory.positive("bytes");
    cluster.reserved_bytes = memory.real("reserved");
    memory.finish("bytes, reserved");
    if (cluster.reserved_bytes >= cluster.memory_bytes) {
        throw ConfigError(fmt::format("{}: memory.reserved leaves nothing of memory.bytes", file));
    }
    read_compute(top.section("compute"), cluster);
    Section overhead = top.section("overhead");
    cluster.operation_seconds = overhead.real("operation");
    cluster.micro_batch_seconds = overhead.real("micro_batch");
    overhead.finish("operation, micro_batch");
    read_bytes(top.section("bytes"), cluster);
    Section links = top.section("links");
    cluster.node = read_link(links.section("node"));
    cluster.network = read_link(links.section("network"));
    links.finish("node, network");
    cluster.speeds = top.table("speeds", "rank", 0, /*may_be_0=*/false);
    top.finish(
        "format, name, source, ranks_per_node, degrees, recompute, memory, compute, overhead, "
        "bytes, links, speeds");
    return cluster;
}

ClusterFile read_cluster_file(const std::string& path) {
    return parse_cluster_file(read_text_file(path, "cluster file"), path);
}

}  // namespace dcp::config
