// The hardware model: sizes and operations against published figures, and what must hold of any
// machine.
#include "tests/support/plan_hardware.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

namespace dcp::plan::test {

namespace {

Sequence video(std::int64_t frames, std::int64_t frame_tokens) {
    return {.tokens = frames * frame_tokens, .frames = frames};
}

double forward_teraflops(const ModelShape& shape, const Sequence& sequence) {
    return training_flops(shape, sequence) / 3e12;
}

double utilisation(const HardwareModel& model, const Sequence& sequence, int degree, int depth) {
    Sequence weighed = sequence;
    weighed.squared_tokens = model.squared_tokens(sequence);
    const StepCost cost =
        model.cost(load_of(weighed), preferred_strategy(degree, model.heads()), depth);
    return model.training_flops(sequence) / cost.seconds() / degree / model.cluster().peak_flops;
}

}  // namespace

TEST_CASE("Parameters of known models", "[unit]") {
    CHECK(count_parameters(shape_5b()) == 4'953'209'856.0);
    CHECK(count_parameters(shape_2d()) == 1'207'643'936.0);
    ModelShape llama = shape_5b();  // Llama-3-8B
    llama.layers = 32;
    llama.hidden = 4096;
    llama.heads = 32;
    llama.kv_heads = 8;
    llama.ffn = 14336;
    llama.vocab = 128256;
    CHECK(count_parameters(llama) == 8'030'261'248.0);
    llama.ties_embeddings = true;
    CHECK(count_parameters(llama) == 8'030'261'248.0 - 128256.0 * 4096);
}

TEST_CASE("Operations of known shapes", "[unit]") {
    CHECK(forward_teraflops(shape_5b(), {.tokens = 8192}) == Approx(97).epsilon(0.01));
    CHECK(forward_teraflops(shape_5b(), {.tokens = 32768}) == Approx(595).epsilon(0.01));
    ModelShape full = shape_5b();  // CogVideoX-5B: every token sees every token, GELU
    full.is_causal = false;
    full.is_gated = false;
    full.ffn = 4 * full.hidden;
    full.vocab = 0;
    CHECK(forward_teraflops(full, {.tokens = 17776}) == Approx(332).epsilon(0.01));
    CHECK(forward_teraflops(full, {.tokens = 131072}) == Approx(10113).epsilon(0.01));

    // Open-Sora's buckets: image, 144p, 240p, 360p, 480p, 720p.
    CHECK(forward_teraflops(shape_2d(), video(1, 144)) == Approx(0.40).epsilon(0.02));
    CHECK(forward_teraflops(shape_2d(), video(15, 144)) == Approx(4.80).epsilon(0.01));
    CHECK(forward_teraflops(shape_2d(), video(120, 405)) == Approx(108).epsilon(0.01));
    CHECK(forward_teraflops(shape_2d(), video(120, 920)) == Approx(253).epsilon(0.01));
    CHECK(forward_teraflops(shape_2d(), video(120, 1590)) == Approx(454).epsilon(0.01));
    CHECK(forward_teraflops(shape_2d(), video(60, 3600)) == Approx(568).epsilon(0.01));
}

TEST_CASE("Two sequences of as many tokens cost what their frames say", "[unit]") {
    // 204 frames of 240p and 51 frames of 480p: 24,300 tokens in 60 and in 15 latent frames.
    const ModelShape shape = shape_2d();
    const Sequence many = video(60, 405);
    const Sequence few = video(15, 1620);
    CHECK(attention_pairs(many) == 24300.0 * (405 + 60));
    CHECK(attention_pairs(few) == 24300.0 * (1620 + 15));
    const HardwareModel model = on_round_cluster(shape, 8);
    const auto seconds = [&](Sequence sequence) {
        sequence.squared_tokens = model.squared_tokens(sequence);
        return model.cost(load_of(sequence), {1, 1}, 0).seconds();
    };
    CHECK(seconds(few) > 1.02 * seconds(many));
    // The text of a sequence: forty images cost more than one of as many tokens and pairs.
    CHECK(40 * model.squared_tokens(video(1, 144)) > 5 * 40 * attention_pairs(video(1, 144)));
}

TEST_CASE("Bytes of a token and of the states", "[unit]") {
    // 4 + 2 kv/heads + 2 ffn/hidden times hidden elements, and log-sums and norms.
    const HardwareModel model = on_round_cluster(shape_5b(), 8);
    CHECK(model.layer_token_bytes() == (6 * 3072 + 2 * 8192) * 2 + 4 * (24 + 2));
    CHECK(model.checkpoint_token_bytes() == 6144);
    CHECK(model.static_bytes() == Approx(4'953'209'856.0 * (2 + 4 + 12.0 / 8)));
    CHECK(on_round_cluster(shape_2d(), 8).layer_token_bytes() == 34'720);

    const StepCost kept = model.cost({1000, 1e6}, {2, 1}, 0);
    const StepCost recomputed = model.cost({1000, 1e6}, {2, 1}, 42);
    CHECK(recomputed.peak_bytes - kept.peak_bytes ==
          Approx(500 * (42 * 6144 - 41 * model.layer_token_bytes())));

    const HardwareModel whole(shape_5b(), round_cluster(),
                              {.ranks = 8, .ranks_per_node = 8, .shards_optimizer = false});
    CHECK(whole.static_bytes() == Approx(4'953'209'856.0 * 18));
}

TEST_CASE("Utilisation is that of real training", "[unit]") {
    const HardwareModel model = on_round_cluster(shape_5b(), 8);
    const double alone = utilisation(model, {.tokens = 16384}, 1, 0);
    CHECK(alone > 0.45);
    CHECK(alone < 0.65);
    CHECK(utilisation(model, {.tokens = 512}, 1, 0) < 0.8 * alone);
    CHECK(utilisation(model, {.tokens = 16384}, 1, 42) < 0.85 * alone);
    CHECK(utilisation(model, {.tokens = 131072}, 8, 0) > 0.4);
    CHECK(utilisation(model, {.tokens = 131072}, 16, 0) <
          utilisation(model, {.tokens = 131072}, 8, 0));
    const double video_share = utilisation(on_round_cluster(shape_2d(), 8), video(30, 920), 1, 0);
    CHECK(video_share > 0.35);
    CHECK(video_share < 0.6);
}

TEST_CASE("Crossing nodes costs", "[unit]") {
    const HardwareModel model = on_round_cluster(shape_5b(), 32);
    const Load load = load_of(100'000);
    const double near = model.cost(load, {8, 1}, 0).communication_seconds;
    // All-to-all over two nodes: half of twice less goes over the slow link.
    CHECK(model.cost(load, {24, 1}, 0).communication_seconds > near);
    // A ring of whole nodes: heads are exchanged inside them.
    const double ring = model.cost(load, {8, 2}, 0).communication_seconds;
    const double inside = model.cost(load, {8, 1}, 0).communication_seconds / 2;
    CHECK(ring > inside);
    // Nine ranks: the one on the other node sends nearly everything over the network.
    CHECK(model.cost(load, {9, 1}, 0).communication_seconds >
          model.cost(load, {12, 1}, 0).communication_seconds);
    CHECK(model.cost(load, {1, 1}, 0).communication_seconds == 0);
}

TEST_CASE("Reduction and optimizer once an iteration", "[unit]") {
    const double bytes = 4'953'209'856.0 * (4 + 2);
    const HardwareModel node = on_round_cluster(shape_5b(), 8);
    CHECK(node.reduction_seconds() == Approx(bytes * 7 / 8 / 3e11).epsilon(0.01));
    CHECK(node.per_iteration_seconds() == node.reduction_seconds() + node.optimizer_seconds());
    CHECK(on_round_cluster(shape_5b(), 1).reduction_seconds() == 0);
    CHECK(on_round_cluster(shape_5b(), 64).optimizer_seconds() < node.optimizer_seconds());
}

TEST_CASE("A model of hardware is monotone and linear", "[unit]") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const Problem problem = random_hardware_problem(seed, 12, 3);
        Dice dice(seed + 1000);
        const CostModel& model = *problem.cost;
        const int degree = static_cast<int>(dice.between(1, problem.topology.ranks));
        const int depth = static_cast<int>(dice.between(0, model.layers()));
        const Load less = load_of(dice.skewed(1000));
        const Load more{less.tokens + dice.between(1, 100), less.squared_tokens + 50};
        const Strategy strategy = preferred_strategy(degree, problem.heads);
        const StepCost small = model.cost(less, strategy, depth);
        const StepCost large = model.cost(more, strategy, depth);
        CAPTURE(seed, degree, depth);
        CHECK(large.seconds() > small.seconds());
        CHECK(large.peak_bytes > small.peak_bytes);
        CHECK(small.seconds() == Approx(model.linear(degree, depth).seconds(less)));
        CHECK(small.peak_bytes == Approx(model.linear(degree, depth).bytes(less)));
        if (depth < model.layers()) {
            const StepCost again = model.cost(less, strategy, depth + 1);
            CHECK(again.seconds() > small.seconds());
            // With the first recomputed layer, one is held in full beside the checkpoints.
            CHECK((depth == 0 || again.peak_bytes <= small.peak_bytes));
        }
        CHECK(model.cost(less, strategy, model.layers()).peak_bytes <=
              model.cost(less, strategy, 1).peak_bytes);
        const Strategy alone{1, 1};
        CHECK(small.compute_seconds <=
              model.cost(less, alone, depth).compute_seconds * (1 + 1e-12));
    }
}

TEST_CASE("No plan on hardware beats its bound", "[unit]") {
    double gaps = 0;
    int count = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Problem problem = random_hardware_problem(seed, 3, 4);
        const double bound = lower_bounds(problem).best_seconds();
        const Plan plan = make_planner("dcp", {.effort = Effort::kFast})->plan(problem);
        validate(problem, plan);
        const double shortest =
            ExhaustiveSearch(problem).shortest(plan.makespan_seconds * (1 + 1e-9));
        CAPTURE(seed, bound, shortest, plan.makespan_seconds);
        CHECK(bound <= shortest * (1 + 1e-9));
        gaps += plan.makespan_seconds / shortest - 1;
        ++count;
    }
    CHECK(gaps / count < 0.02);
}

TEST_CASE("Machines that mean nothing are refused", "[unit]") {
    const HardwareWorld world{.ranks = 8, .ranks_per_node = 8};
    Cluster cluster = round_cluster();
    cluster.attention = {{64, {5e14, 4e14, 0, 0}}};
    CHECK_THROWS_AS(HardwareModel(shape_5b(), cluster, world), PlanError);
    cluster = round_cluster();
    cluster.reserved_bytes = cluster.memory_bytes;
    CHECK_THROWS_AS(HardwareModel(shape_5b(), cluster, world), PlanError);
    ModelShape shape = shape_5b();
    shape.kv_heads = 7;
    CHECK_THROWS_AS(HardwareModel(shape, round_cluster(), world), PlanError);
}

}  // namespace dcp::plan::test
