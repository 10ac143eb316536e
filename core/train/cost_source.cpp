#include "core/train/cost_source.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/plan/measured_model.hpp"

namespace dcp::train {

namespace {

std::vector<int> within(const std::vector<int>& listed, int ranks, const std::string& path) {
    if (listed.empty()) {
        return plan::any_degrees(ranks);
    }
    std::vector<int> degrees;
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(degrees),
                 [ranks](int degree) { return degree <= ranks; });
    if (degrees.empty()) {
        throw ConfigError(fmt::format("{}: allows no SP degree of {} rank{}: the least is {}", path,
                                      ranks, ranks == 1 ? "" : "s", listed.front()));
    }
    return degrees;
}

std::vector<double> speeds_of(const std::map<int, double>& listed,
                              int ranks,
                              const std::string& path) {
    if (listed.empty()) {
        return {};
    }
    if (listed.rbegin()->first >= ranks) {
        throw ConfigError(fmt::format("{}: speeds names rank {}, and there are {} ranks", path,
                                      listed.rbegin()->first, ranks));
    }
    std::vector<double> speeds(static_cast<std::size_t>(ranks), 1.0);
    for (const auto& [rank, speed] : listed) {
        if (const std::string fault = plan::speed_fault(rank, speed); !fault.empty()) {
            throw ConfigError(fmt::format("{}: speeds: {}", path, fault));
        }
        speeds[static_cast<std::size_t>(rank)] = speed;
    }
    return speeds;
}

void refuse_model(bool has_model, const std::string& path, const char* format) {
    if (has_model) {
        throw ConfigError(
            fmt::format("{}: a file of format {} is about one model already; --model belongs to a "
                        "cluster description",
                        path, format));
    }
}

// Which of the constructors of a cost model refuses a file's numbers is a PlanError; here it is the
// file that is wrong.
template <class Make>
auto made_from(const std::string& path, Make make) {
    try {
        return make();
    } catch (const PlanError& error) {
        throw ConfigError(fmt::format("{}: {}", path, error.what()));
    }
}

}  // namespace

AnyCostFile read_any_cost_file(const std::string& path) {
    const std::string text = config::read_text_file(path, "cost file");
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && text[first] == '{') {
        try {
            return plan::parse_profile(text);
        } catch (const ConfigError& error) {
            throw ConfigError(fmt::format("{}: {}", path, error.what()));
        }
    }
    const std::string format = config::format_of(text, path);
    if (format == config::kCostFormat) {
        return config::parse_cost_file(text, path);
    }
    if (format == config::kClusterFormat) {
        return config::parse_cluster_file(text, path);
    }
    throw ConfigError(fmt::format("{}: format is '{}', expected {}, {} or {}", path, format,
                                  config::kCostFormat, config::kClusterFormat,
                                  plan::kProfileFormat));
}

std::shared_ptr<const plan::CostModel> cost_model(const config::CostFile& file) {
    return std::make_shared<plan::ClosedForm>(plan::ClosedFormConstants{
        .name = file.name,
        .layers = file.layers,
        .fixed_seconds = file.fixed,
        .token_seconds = file.per_token,
        .squared_token_seconds = file.per_token_squared,
        .forward_share = file.forward_share,
        .per_iteration_seconds = file.per_iteration,
        .communication_token_bytes = file.bytes_per_token,
        .bandwidths = file.bandwidth,
        .latencies = file.latency,
        .static_bytes = file.static_bytes,
        .layer_token_bytes = file.layer_bytes_per_token,
        .checkpoint_token_bytes = file.checkpoint_bytes_per_token,
    });
}

plan::Cluster cluster_of(const config::ClusterFile& file) {
    plan::Cluster cluster{
        .name = file.name,
        .ranks_per_node = file.ranks_per_node,
        .memory_bytes = file.memory_bytes,
        .reserved_bytes = file.reserved_bytes,
        .peak_flops = file.peak,
        .product_flops = file.product_rate,
        .product_half_width = file.product_half_width,
        .product_half_outputs = file.product_half_outputs,
        .attention = {},
        .memory_bandwidth = file.memory_bandwidth,
        .launch_seconds = file.operation_seconds,
        .step_seconds = file.micro_batch_seconds,
        .element_bytes = file.element_bytes,
        .parameter_bytes = file.parameter_bytes,
        .gradient_bytes = file.gradient_bytes,
        .optimizer_bytes = file.optimizer_bytes,
        .node = {.bandwidth = file.node.bandwidth, .latency = file.node.latency},
        .network = {.bandwidth = file.network.bandwidth, .latency = file.network.latency},
    };
    for (const auto& [head_dim, rate] : file.attention) {
        cluster.attention[head_dim] = {.forward_flops = rate.forward,
                                       .backward_flops = rate.backward,
                                       .half_tokens = rate.half_tokens,
                                       .causal_half_tokens = rate.causal_half_tokens};
    }
    return cluster;
}

plan::ModelShape shape_of(const config::ModelConfig& model, const std::string& name) {
    plan::ModelShape shape{.name = name,
                           .has_two_dimensions = model.has_two_dimensions(),
                           .layers = static_cast<int>(model.layers),
                           .hidden = model.hidden,
                           .heads = model.heads,
                           .kv_heads = model.kv_heads,
                           .head_dim = model.head_dim,
                           .ffn = model.ffn};
    if (model.has_two_dimensions()) {
        shape.layers *= 2;  // a spatial and a temporal block
        shape.text_tokens = model.text_tokens;
        shape.text_width = model.text_width;
        return shape;
    }
    shape.vocab = model.vocab;
    shape.is_gated = model.activation == config::Activation::kSwiGlu;
    shape.has_norm_biases = model.norm == config::NormKind::kLayerNorm;
    shape.is_causal = model.causal;
    shape.ties_embeddings = model.tie_embeddings;
    return shape;
}

namespace {

PlanningCost from_cost_file(const config::CostFile& file, const std::string& path, int ranks) {
    return {.model = made_from(path, [&] { return cost_model(file); }),
            .ranks_per_node = file.ranks_per_node,
            .degrees = within(file.degrees, ranks, path),
            .budget_bytes = file.budget,
            .may_recompute = file.recompute};
}

PlanningCost from_cluster(const config::ClusterFile& file,
                          const std::string& path,
                          const plan::ModelShape& model,
                          int ranks,
                          int ranks_per_node) {
    auto hardware = made_from(path, [&] {
        return std::make_shared<plan::HardwareModel>(
            model, cluster_of(file),
            plan::HardwareWorld{.ranks = ranks,
                                .ranks_per_node = ranks_per_node,
                                .shards_optimizer = file.shards_optimizer});
    });
    const plan::Heads heads = hardware->heads();
    const double budget = hardware->cluster().budget_bytes();
    return {.model = std::move(hardware),
            .ranks_per_node = ranks_per_node,
            .degrees = within(file.degrees, ranks, path),
            .heads = heads,
            .dimensions = model.has_two_dimensions ? 2 : 1,
            .budget_bytes = budget,
            .may_recompute = file.recompute,
            .speeds = speeds_of(file.speeds, ranks, path)};
}

PlanningCost from_profile(const plan::Profile& profile,
                          const std::string& path,
                          int ranks,
                          int ranks_per_node) {
    auto measured = made_from(path, [&] {
        return std::make_shared<plan::MeasuredModel>(profile, ranks, ranks_per_node);
    });
    std::vector<int> degrees = measured->degrees();
    if (degrees.empty()) {
        throw ConfigError(
            fmt::format("{}: no SP degree of {} ranks on nodes of {} was measured with the "
                        "strategy that planners use for it",
                        path, ranks, ranks_per_node));
    }
    return {.model = std::move(measured),
            .ranks_per_node = ranks_per_node,
            .degrees = std::move(degrees),
            .heads = profile.heads,
            .dimensions = profile.dimensions,
            .budget_bytes = profile.budget_bytes,
            .may_recompute = profile.may_recompute,
            .speeds = profile.speeds};
}

}  // namespace

PlanningCost planning_cost(const AnyCostFile& file,
                           const std::string& path,
                           const std::optional<plan::ModelShape>& model,
                           int ranks,
                           std::optional<int> ranks_per_node) {
    if (const auto* cost = std::get_if<config::CostFile>(&file)) {
        refuse_model(model.has_value(), path, config::kCostFormat);
        PlanningCost made = from_cost_file(*cost, path, ranks);
        made.ranks_per_node = ranks_per_node.value_or(made.ranks_per_node);
        return made;
    }
    if (const auto* profile = std::get_if<plan::Profile>(&file)) {
        refuse_model(model.has_value(), path, plan::kProfileFormat);
        return from_profile(*profile, path, ranks,
                            ranks_per_node.value_or(profile->ranks_per_node));
    }
    const auto& cluster = std::get<config::ClusterFile>(file);
    if (!model) {
        throw ConfigError(fmt::format(
            "{}: describes a cluster and no model: name one with --model CONFIG, such as "
            "configs/transformer-1d-5b.yaml",
            path));
    }
    return from_cluster(cluster, path, *model, ranks,
                        ranks_per_node.value_or(cluster.ranks_per_node));
}

plan::Problem planning_problem(const PlanningCost& cost, int ranks) {
    plan::Problem problem;
    problem.cost = cost.model;
    problem.topology = {
        .ranks = ranks, .ranks_per_node = cost.ranks_per_node, .speeds = cost.speeds};
    problem.degrees = cost.degrees;
    problem.heads = cost.heads;
    problem.memory_budget_bytes = cost.budget_bytes;
    problem.may_recompute = cost.may_recompute;
    return problem;
}

std::vector<int> parse_degrees(const std::string& text, int ranks, const std::string& option) {
    if (text == "any") {
        return plan::any_degrees(ranks);
    }
    if (text == "pow2") {
        return plan::power_of_two_degrees(ranks);
    }
    std::vector<int> degrees;
    int last = 0;
    const char* next = text.data();
    const char* const end = text.data() + text.size();
    while (true) {
        int degree = 0;
        const auto [stop, status] = std::from_chars(next, end, degree);
        if (status != std::errc() || degree <= last || (stop != end && *stop != ',')) {
            throw ConfigError(fmt::format(
                "{} is '{}', expected any, pow2 or a rising list such as 1,2,4", option, text));
        }
        last = degree;
        if (degree <= ranks) {
            degrees.push_back(degree);
        }
        if (stop == end) {
            break;
        }
        next = stop + 1;
    }
    if (degrees.empty()) {
        throw ConfigError(
            fmt::format("{} is '{}': none of them fits on {} ranks", option, text, ranks));
    }
    return degrees;
}

}  // namespace dcp::train
