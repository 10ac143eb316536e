#include "core/plan/hardware_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::plan {

namespace {

// Backward passes: two products for each of the forward one, five of attention for its two.
constexpr double kBackwardProducts = 2;
constexpr double kBackwardAttention = 2.5;
constexpr double kBackwardRing = 2;  // keys and values go round, and their gradients
// Operations of a layer that wait for one another, forward; the backward pass has twice as many.
constexpr double kLaunches = 12;
constexpr double kLaunches2d = 18;
// Passes over the logits: written, read for the loss, gradients written and read twice.
constexpr double kLogitPasses = 5;
// Rows of text are kept once for each sequence. They are counted by tokens, as if no sequence had
// fewer than an image of 144 x 256 pixels.
constexpr double kShortestTokens2d = 144;

double real(std::int64_t value) {
    return static_cast<double>(value);
}

// A matrix product: tokens x inner -> outputs.
struct ProductShape {
    double inner = 1;
    double outputs = 1;
};

std::vector<ProductShape> products(const ModelShape& s) {
    const double h = real(s.hidden);
    const double f = real(s.ffn);
    if (s.has_two_dimensions) {
        return {{h, 3 * h}, {h, h}, {h, h}, {h, h}, {h, f}, {f, h}};
    }
    return {{h, real(s.heads_width() + 2 * s.kv_width())},
            {real(s.heads_width()), h},
            {h, (s.is_gated ? 2 : 1) * f},
            {f, h}};
}

// Elements that the other operations of a layer read and write for a token, forward: norms, RoPE,
// residuals and gates, activation.
double traffic_elements(const ModelShape& s) {
    const double h = real(s.hidden);
    const double f = real(s.ffn);
    if (s.has_two_dimensions) {
        return 4 * h + 4 * h + 2 * h + 9 * h + 2 * f;
    }
    return 4 * h + 2 * real(s.heads_width() + s.kv_width()) + 6 * h + (s.is_gated ? 3 : 2) * f;
}

void require(bool is_right, const std::string& who, const std::string& promise) {
    if (!is_right) {
        throw PlanError(fmt::format("{}: {}", who, promise));
    }
}

bool is_positive(double value) {
    return std::isfinite(value) && value > 0;
}

void check(const ModelShape& s) {
    const std::string who = fmt::format("model '{}'", s.name);
    require(s.layers >= 1 && s.hidden >= 1 && s.heads >= 1 && s.kv_heads >= 1 && s.head_dim >= 1 &&
                s.ffn >= 1 && s.vocab >= 0 && s.text_tokens >= 0 && s.text_width >= 0,
            who, "sizes must be at least 1");
    require(s.heads % s.kv_heads == 0, who, "key and value heads must divide the heads");
    require(!s.has_two_dimensions || s.layers % 2 == 0, who,
            "spatial and temporal blocks come in pairs");
    require(!s.has_two_dimensions || (s.heads_width() == s.hidden && s.kv_heads == s.heads), who,
            "the heads of a model of two dimensions are hidden / head_dim");
}

void check(const Cluster& c) {
    const std::string who = fmt::format("cluster '{}'", c.name);
    require(c.ranks_per_node >= 1, who, "a node has at least one rank");
    require(is_positive(c.memory_bytes) && c.reserved_bytes >= 0 && is_positive(c.budget_bytes()),
            who, "memory must be more than what is reserved of it");
    require(is_positive(c.peak_flops) && is_positive(c.product_flops) &&
                is_positive(c.memory_bandwidth) && is_positive(c.node.bandwidth) &&
                is_positive(c.network.bandwidth),
            who, "rates and bandwidths must be positive");
    require(is_positive(c.element_bytes) && is_positive(c.parameter_bytes) &&
                is_positive(c.gradient_bytes) && c.optimizer_bytes >= 0,
            who, "element sizes must be positive");
    require(c.product_half_width >= 0 && c.product_half_outputs >= 0 && c.launch_seconds >= 0 &&
                c.step_seconds >= 0 && c.node.latency >= 0 && c.network.latency >= 0,
            who, "sizes at half the rate, overheads and latencies must not be negative");
    for (const auto& [head_dim, rate] : c.attention) {
        require(
            head_dim >= 1 && is_positive(rate.forward_flops) && is_positive(rate.backward_flops) &&
                rate.half_tokens >= 0 && rate.causal_half_tokens >= 0,
            who, fmt::format("the attention rates of head dimension {} mean nothing", head_dim));
    }
}

// The least head dimension that holds the model's, slowed down by what is padding in it.
AttentionRate rate_for(const Cluster& cluster, const ModelShape& shape) {
    const auto found = cluster.attention.lower_bound(static_cast<int>(shape.head_dim));
    if (found == cluster.attention.end()) {
        throw PlanError(
            fmt::format("cluster '{}' has no attention rate for heads of {} elements: the largest "
                        "it knows has {}",
                        cluster.name, shape.head_dim,
                        cluster.attention.empty() ? 0 : cluster.attention.rbegin()->first));
    }
    AttentionRate rate = found->second;
    const double used = real(shape.head_dim) / found->first;
    rate.forward_flops *= used;
    rate.backward_flops *= used;
    return rate;
}

struct Spread {  // ranks of one node in a group, over its nodes
    int least = 1;
    int most = 1;
};

// Of the groups of `size` neighbours in a gang of `ranks` on full nodes and one more.
Spread spread_of(int size, int ranks, int ranks_per_node) {
    Spread spread{.least = size, .most = 1};
    for (int first = 0; first < ranks; first += size) {
        for (int begin = first; begin < first + size;) {
            const int end = std::min((begin / ranks_per_node + 1) * ranks_per_node, first + size);
            spread.least = std::min(spread.least, end - begin);
            spread.most = std::max(spread.most, end - begin);
            begin = end;
        }
    }
    return spread;
}

}  // namespace

HardwareModel::HardwareModel(ModelShape shape, Cluster cluster, const HardwareWorld& world)
    : shape_(std::move(shape)),
      cluster_(std::move(cluster)),
      ranks_per_node_(world.ranks_per_node),
      name_(fmt::format("{} on {}", shape_.name, cluster_.name)) {
    check(shape_);
    check(cluster_);
    require(world.ranks >= 1 && world.ranks_per_node >= 1, name_,
            "ranks and ranks of a node must be at least 1");
    attention_ = rate_for(cluster_, shape_);
    forward_ = pass(/*is_backward=*/false);
    backward_ = pass(/*is_backward=*/true);
    if (!shape_.has_two_dimensions && shape_.vocab > 0) {
        const double h = real(shape_.hidden);
        const double V = real(shape_.vocab);
        head_.fixed = (1 + kBackwardProducts) * product_seconds(h, V, 0);
        head_.token =
            (1 + kBackwardProducts) * (product_seconds(h, V, 1) - product_seconds(h, V, 0)) +
            kLogitPasses * V * cluster_.element_bytes / cluster_.memory_bandwidth;
    }
    if (shape_.has_two_dimensions) {
        const double h = real(shape_.hidden);
        const double text = shape_.layers * (product_seconds(h, 2 * h, real(shape_.text_tokens)) -
                                             product_seconds(h, 2 * h, 0));
        text_pairs_ =
            (1 + kBackwardProducts) * text / (forward_.squared_token + backward_.squared_token);
    }
    const double element = cluster_.element_bytes;
    layer_token_bytes_ = kept_elements(shape_) * element + 4 * kept_statistics(shape_);
    checkpoint_token_bytes_ = real(shape_.hidden) * element;
    working_token_bytes_ = working_elements(shape_) * element;
    if (shape_.has_two_dimensions) {
        working_token_bytes_ +=
            real(shape_.text_tokens * shape_.hidden) * element / kShortestTokens2d;
    }
    compute_iteration(world);
}

Heads HardwareModel::heads() const {
    if (shape_.has_two_dimensions) {
        return {};
    }
    return {.query = static_cast<int>(shape_.heads),
            .key_value = static_cast<int>(shape_.kv_heads)};
}

double HardwareModel::product_seconds(double inner, double outputs, double rows) const {
    const double slow = 1 + cluster_.product_half_width / std::min(inner, outputs);
    return 2 * inner * (rows * outputs + cluster_.product_half_outputs) * slow /
           cluster_.product_flops;
}

HardwareModel::Pass HardwareModel::pass(bool is_backward) const {
    const double layers = shape_.layers;
    const double repeats = is_backward ? kBackwardProducts : 1;
    Pass pass;
    pass.fixed = repeats * layers * cluster_.launch_seconds *
                 (shape_.has_two_dimensions ? kLaunches2d : kLaunches);
    for (const ProductShape& product : products(shape_)) {
        const double fixed = product_seconds(product.inner, product.outputs, 0);
        pass.fixed += repeats * layers * fixed;
        pass.token +=
            repeats * layers * (product_seconds(product.inner, product.outputs, 1) - fixed);
    }
    pass.token += repeats * layers * traffic_elements(shape_) * cluster_.element_bytes /
                  cluster_.memory_bandwidth;

    const double rate =
        is_backward ? attention_.backward_flops / kBackwardAttention : attention_.forward_flops;
    pass.squared_token = pair_flops(shape_) / rate;
    // Half of the pairs of two dimensions are in each kind of block, every token in both.
    const bool is_causal = !shape_.has_two_dimensions && shape_.is_causal;
    const double attentions = shape_.has_two_dimensions ? 2 : 1;
    pass.short_token = attentions * pass.squared_token *
                       (is_causal ? attention_.causal_half_tokens : attention_.half_tokens);
    if (shape_.has_two_dimensions) {
        pass.token += layers * 4 * real(shape_.text_tokens * shape_.hidden) / rate;
    }
    return pass;
}

// Every rank of a Ulysses group holds `bytes` and sends an equal part of it to each other one.
double HardwareModel::exchange_seconds(const Strategy& strategy, double bytes) const {
    const int size = strategy.ulysses;
    if (size == 1) {
        return 0;
    }
    const Spread spread = spread_of(size, strategy.degree(), ranks_per_node_);
    const double near = bytes * (spread.most - 1) / size / cluster_.node.bandwidth;
    const double far = bytes * (size - spread.least) / size / cluster_.network.bandwidth;
    return std::max(near, far);
}

HardwareModel::Exchange HardwareModel::exchange(const Strategy& strategy, bool is_backward) const {
    const double degree = strategy.degree();
    const double layers = shape_.layers;
    const double element = cluster_.element_bytes;
    Exchange exchange;
    if (strategy.ulysses > 1) {
        const bool is_far = spread_of(strategy.ulysses, strategy.degree(), ranks_per_node_).least <
                            strategy.ulysses;
        const double latency = is_far ? cluster_.network.latency : cluster_.node.latency;
        // Key and value heads are sent to every rank that needs them.
        const double kv =
            real(std::max<std::int64_t>(shape_.kv_heads, strategy.ulysses)) * real(shape_.head_dim);
        const double elements = shape_.has_two_dimensions ? real(shape_.hidden)
                                                          : 2 * real(shape_.heads_width()) + 2 * kv;
        exchange.fixed += layers * (shape_.has_two_dimensions ? 1 : 2) * latency;
        exchange.token += layers * exchange_seconds(strategy, elements * element / degree);
    }
    if (strategy.ring > 1) {
        const Link& link = strategy.degree() > ranks_per_node_ ? cluster_.network : cluster_.node;
        const double kv = real(std::max<std::int64_t>(shape_.kv_heads, strategy.ulysses)) *
                          real(shape_.head_dim) / strategy.ulysses;
        const double rounds = (strategy.ring - 1) * (is_backward ? kBackwardRing : 1);
        exchange.fixed += layers * rounds * link.latency;
        exchange.token += layers * rounds * 2 * kv * element / strategy.ring / link.bandwidth;
    }
    return exchange;
}

HardwareModel::Line HardwareModel::line(const Strategy& strategy, int recompute_layers) const {
    const double forward = 1 + static_cast<double>(recompute_layers) / shape_.layers;
    const double degree = strategy.degree();
    Line line;
    line.fixed = cluster_.step_seconds + forward * forward_.fixed + backward_.fixed + head_.fixed;
    line.token = (forward * forward_.token + backward_.token + head_.token) / degree +
                 (forward * forward_.short_token + backward_.short_token) / strategy.ulysses;
    line.squared_token = (forward * forward_.squared_token + backward_.squared_token) / degree;
    if (strategy.degree() > 1) {
        const Exchange there = exchange(strategy, /*is_backward=*/false);
        const Exchange back = exchange(strategy, /*is_backward=*/true);
        line.exchange_fixed = forward * there.fixed + back.fixed;
        line.exchange_token = forward * there.token + back.token;
    }
    return line;
}

double HardwareModel::token_bytes(int degree, int recompute_layers) const {
    const double kept = kept_by_layers(shape_.layers, recompute_layers, layer_token_bytes_,
                                       checkpoint_token_bytes_);
    const double exchanged = shape_.has_two_dimensions
                                 ? 2 * real(shape_.hidden)
                                 : real(shape_.heads_width() + 2 * shape_.kv_width());
    return kept + working_token_bytes_ + (degree > 1 ? exchanged * cluster_.element_bytes : 0);
}

StepCost HardwareModel::cost(const Load& load,
                             const Strategy& strategy,
                             int recompute_layers) const {
    const Line line = this->line(strategy, recompute_layers);
    const double tokens = real(load.tokens);
    return {.fixed_seconds = line.fixed,
            .compute_seconds = line.token * tokens + line.squared_token * load.squared_tokens,
            .communication_seconds = line.exchange_fixed + line.exchange_token * tokens,
            .peak_bytes = static_bytes_ + token_bytes(strategy.degree(), recompute_layers) *
                                              tokens / strategy.degree()};
}

LinearCost HardwareModel::linear(int degree, int recompute_layers) const {
    const Line line = this->line(preferred_strategy(degree, heads()), recompute_layers);
    return {.fixed_seconds = line.fixed + line.exchange_fixed,
            .token_seconds = line.token + line.exchange_token,
            .squared_token_seconds = line.squared_token,
            .static_bytes = static_bytes_,
            .token_bytes = token_bytes(degree, recompute_layers) / degree};
}

double HardwareModel::squared_tokens(const Sequence& sequence) const {
    return attention_pairs(sequence) + (sequence.frames > 0 ? text_pairs_ : 0);
}

// Gradients are summed to the rank that owns their part of the optimizer, which updates it and
// hands the parameters back. A ring over all nodes uses the network links of all ranks of a node.
void HardwareModel::compute_iteration(const HardwareWorld& world) {
    const double parameters = count_parameters(shape_);
    const double share = world.shards_optimizer ? 1.0 / world.ranks : 1.0;
    static_bytes_ = parameters * (cluster_.parameter_bytes + cluster_.gradient_bytes +
                                  share * cluster_.optimizer_bytes);
    if (world.ranks > 1) {
        const bool is_far = world.ranks > world.ranks_per_node;
        const double far = world.ranks_per_node * cluster_.network.bandwidth;
        const double bandwidth =
            is_far ? std::min(cluster_.node.bandwidth, far) : cluster_.node.bandwidth;
        const double rounds = std::ceil(std::log2(world.ranks));
        const double back =
            world.shards_optimizer ? cluster_.parameter_bytes : cluster_.gradient_bytes;
        reduction_seconds_ =
            parameters * (cluster_.gradient_bytes + back) * (world.ranks - 1) / world.ranks /
                bandwidth +
            2 * rounds * (is_far ? cluster_.network.latency : cluster_.node.latency);
    }
    // Gradients are cleared; a rank's share is read for the norm, then states are read and written,
    // gradients read, parameters written.
    const double updated =
        2 * cluster_.gradient_bytes + 2 * cluster_.optimizer_bytes + cluster_.parameter_bytes;
    optimizer_seconds_ =
        parameters * (cluster_.gradient_bytes + share * updated) / cluster_.memory_bandwidth;
    per_iteration_seconds_ = reduction_seconds_ + optimizer_seconds_;
}

}  // namespace dcp::plan
