// Models and machines for tests of the hardware model. The cluster has round numbers of a large
// GPU's size; random ones are small enough for exhaustive search.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/plan_problems.hpp"

#include "core/plan/hardware_model.hpp"

namespace dcp::plan::test {

inline ModelShape shape_5b() {
    return {.name = "5b",
            .layers = 42,
            .hidden = 3072,
            .heads = 24,
            .kv_heads = 24,
            .head_dim = 128,
            .ffn = 8192,
            .vocab = 32000};
}

inline ModelShape shape_2d() {
    return {.name = "2d",
            .has_two_dimensions = true,
            .layers = 56,
            .hidden = 1152,
            .heads = 16,
            .kv_heads = 16,
            .head_dim = 72,
            .ffn = 4608,
            .text_tokens = 300,
            .text_width = 4096};
}

inline Cluster round_cluster() {
    return {.name = "round",
            .ranks_per_node = 8,
            .memory_bytes = 1.5e11,
            .reserved_bytes = 1e10,
            .peak_flops = 1e15,
            .product_flops = 8e14,
            .product_half_width = 300,
            .product_half_outputs = 2e6,
            .attention = {{64, {5e14, 4e14, 200, 500}}, {128, {6e14, 5e14, 150, 500}}},
            .memory_bandwidth = 4e12,
            .launch_seconds = 4e-6,
            .step_seconds = 1e-3,
            .node = {3e11, 1.5e-5},
            .network = {4.5e10, 3e-5}};
}

inline HardwareModel on_round_cluster(ModelShape shape, int ranks) {
    return {std::move(shape), round_cluster(), {.ranks = ranks, .ranks_per_node = 8}};
}

// A small model on a machine of which everything is drawn: fast or slow links, large or no
// overheads, one dimension or two.
inline Problem random_hardware_problem(std::uint64_t seed, int most_ranks, int most_sequences) {
    Dice dice(seed);
    const bool is_2d = dice.chance(0.5);
    ModelShape shape{.name = "drawn",
                     .has_two_dimensions = is_2d,
                     .layers = 2 * static_cast<int>(dice.between(1, 2)),
                     .hidden = 64,
                     .heads = 4,
                     .kv_heads = is_2d ? 4 : dice.between(1, 2) * 2,
                     .head_dim = 16,
                     .ffn = 128,
                     .vocab = is_2d ? 0 : 50,
                     .is_causal = dice.chance(0.5),
                     .text_tokens = is_2d ? dice.between(0, 20) : 0,
                     .text_width = is_2d ? 32 : 0};
    Cluster cluster{.name = "drawn",
                    .memory_bytes = 1,
                    .peak_flops = 1e9,
                    .product_flops = 1e8 * (1 + dice.uniform()),
                    .product_half_width = 100 * dice.uniform(),
                    .product_half_outputs = dice.chance(0.3) ? 0 : 1e4 * dice.uniform(),
                    .attention = {{32, {1e8 * dice.uniform() + 1e6, 1e8, 20, 40}}},
                    .memory_bandwidth = 1e8,
                    .launch_seconds = dice.chance(0.3) ? 0 : 1e-4 * dice.uniform(),
                    .step_seconds = dice.chance(0.3) ? 0 : 1e-2 * dice.uniform(),
                    .node = {1e6 + 1e8 * dice.uniform(), 1e-3 * dice.uniform()},
                    .network = {1e5 + 1e7 * dice.uniform(), 1e-2 * dice.uniform()}};
    const int ranks = static_cast<int>(dice.between(1, most_ranks));
    const int ranks_per_node = static_cast<int>(dice.between(1, ranks));
    cluster.ranks_per_node = ranks_per_node;
    Problem problem;
    const auto model =
        std::make_shared<HardwareModel>(shape, cluster,
                                        HardwareWorld{.ranks = ranks,
                                                      .ranks_per_node = ranks_per_node,
                                                      .shards_optimizer = dice.chance(0.5)});
    problem.cost = model;
    problem.heads = model->heads();
    problem.topology = {.ranks = ranks, .ranks_per_node = ranks_per_node};
    problem.degrees = any_degrees(ranks);
    problem.may_recompute = dice.chance(0.5);
    for (std::int64_t count = dice.between(1, most_sequences); count > 0; --count) {
        const std::int64_t frames = is_2d ? dice.skewed(12) : 0;
        const std::int64_t tokens = is_2d ? frames * dice.skewed(30) : dice.skewed(400);
        problem.sequences.push_back({.id = count, .tokens = tokens, .frames = frames});
    }
    weigh(problem);
    const Load load = load_of(problem.longest());
    const double least =
        cost_of(problem, load, ranks, leanest_depth(problem, load, ranks)).peak_bytes;
    problem.memory_budget_bytes = least * (1 + (dice.chance(0.5) ? 0.1 : 1.0) * dice.uniform());
    return problem;
}

}  // namespace dcp::plan::test
