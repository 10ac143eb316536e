// The whole model on the CUDA backend against the same model on the CPU backend, in fp32 (which
// test_model holds against double precision) and in bf16: losses of all tokens, every gradient.
// Weights are bf16 numbers, so that all start from the same ones.
#include <algorithm>
#include <cmath>

#include "tests/support/small_model.hpp"
#include <catch2/catch.hpp>

#include "kernels/linear.hpp"

using namespace dcp;

namespace {

constexpr DType kF32 = DType::kFloat32;

struct CpuQueue {
    explicit CpuQueue(int threads) : queue(Queue::cpu(threads)) {}
    operator Queue&() { return queue; }  // NOLINT(google-explicit-constructor)
    Queue queue;
};
using OnCpu = test::ModelOn<CpuQueue>;
using OnCuda = test::ModelOn<test::TestQueue>;

// GPT- and Llama-like, both causal; full attention with and without groups; no rotation.
std::vector<config::ModelConfig> variants() {
    auto all = test::model_variants();
    all.push_back(test::small_model());
    all.back().causal = false;
    return all;
}

// How far losses or a gradient may be from the exact ones, relative to their norm.
//
// Rounding a number m 2^e, 1 <= m < 2, to nearest changes it by at most u = epsilon / 2, evenly
// spread: u / (sqrt(3) m) relatively, and with m spread evenly in its logarithm the root mean
// square of that is 0.42 u. Between the weights and a gradient
//
//   R = 18 layers + 4
//
// tensors are rounded when they are stored: a block's norm, qkv, rotation, P, o, x_mid, norm, up,
// activation, y and on the way back d_up, d_x_mid, d_o, P, dS, d_qkv, rotation, d_x; the embedding
// and the head's norm, d_logits, d_x. Such errors are independent, their squares add up. In fp32
// each of these numbers is besides a sum that is rounded with each of its `terms`.
//
// What the network makes of them: differences (dP - delta, scores in an exponential) let an error
// grow more than what it is an error of, up to kAmplification times (2.7 is the most seen here).
constexpr double kAmplification = 4;

double tolerance(DType compute, const config::ModelConfig& config, std::int64_t T) {
    const double roundings = static_cast<double>(18 * config.layers + 4);
    const double terms = static_cast<double>(std::max({config.hidden, config.ffn, T}));
    const double stored = compute == kF32 ? 0 : 0.21 * epsilon(compute) * std::sqrt(roundings);
    const double summed = 0.21 * epsilon(kF32) * std::sqrt(roundings * terms);
    return kAmplification * (stored + summed);
}

double relative_distance(const float* a, const float* b, std::int64_t count) {
    double distance = 0;
    double norm = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        distance += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        norm += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(distance / norm);  // NaN, which no tolerance admits, where there is none
}

struct Trained {
    std::vector<float> losses;
    std::vector<float> gradients;
};

template <class Model>
Trained train(Model& model,
              const std::vector<float>& weights,
              const test::Text& text,
              std::int64_t recompute_layers) {
    model.set_parameters(weights);
    model.zero_gradients();
    Trained result;
    result.losses = model.train(text, 1.0F / 16, recompute_layers);
    result.gradients = model.gradients();
    return result;
}

std::vector<float> bf16_numbers(std::vector<float> values) {
    std::transform(values.begin(), values.end(), values.begin(),
                   [](float value) { return static_cast<float>(BFloat16(value)); });
    return values;
}

// What the CPU backend computes in, the type itself where this processor has it.
std::vector<DType> references(DType compute) {
    if (compute == kF32 || !kernels::supports_dtype(Queue::cpu(1), compute)) {
        return {kF32};
    }
    return {kF32, compute};
}

double gradient_distance(const Trained& a, const Trained& b, const model::ParameterSlot& slot) {
    return relative_distance(a.gradients.data() + slot.offset, b.gradients.data() + slot.offset,
                             slot.shape.num_elems());
}

}  // namespace

TEST_CASE("the model on emulated kernels has the CPU backend's losses and gradients",
          "[emulated][model]") {
    const auto config = variants()[static_cast<std::size_t>(GENERATE(0, 1, 2, 3, 4))];
    const auto compute = GENERATE(DType::kFloat32, DType::kBFloat16);
    const test::Text text = test::random_text({9, 1, 70}, config.vocab);
    const auto weights = bf16_numbers(OnCpu(config, kF32, 2).parameters());
    OnCuda cuda(config, compute, 2);
    const Trained trained = train(cuda, weights, text, 1);  // of two blocks

    for (const DType reference : references(compute)) {
        OnCpu cpu(config, reference, 2);
        const Trained expected = train(cpu, weights, text, 0);
        const auto T = static_cast<std::int64_t>(expected.losses.size());
        // Both are rounded, independently of each other.
        const double allowed =
            std::hypot(tolerance(compute, config, T), tolerance(reference, config, T));
        INFO(name(compute) << " against " << name(reference));
        CHECK(relative_distance(trained.losses.data(), expected.losses.data(), T) <= allowed);
        for (const model::ParameterSlot& slot : cpu.model().layout().slots()) {
            INFO(slot.name);
            CHECK(gradient_distance(trained, expected, slot) <= allowed);
        }
    }
}

TEST_CASE("a rotation by other angles is noticed in bf16 too", "[emulated][model]") {
    auto config = test::small_model();
    const test::Text text = test::random_text({9, 20}, config.vocab);
    OnCpu cpu(config, kF32, 2);
    const auto weights = bf16_numbers(cpu.parameters());
    const Trained expected = train(cpu, weights, text, 0);
    config.rope_theta *= 2;
    OnCuda cuda(config, DType::kBFloat16, 2);
    const Trained trained = train(cuda, weights, text, 0);
    const auto& slot = cpu.model().layout().slot("model.layers.0.self_attn.q_proj.weight");
    CHECK(gradient_distance(trained, expected, slot) > tolerance(DType::kBFloat16, config, 29));
}
