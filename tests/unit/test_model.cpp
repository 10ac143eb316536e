// The whole model against its double-precision twin: losses, every gradient, recomputation, memory.
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/support/reference_model.hpp"
#include "tests/support/small_model.hpp"
#include <catch2/catch.hpp>

#include "core/base/rng.hpp"
#include "core/model/transformer.hpp"
#include "kernels/linear.hpp"
#include "kernels/optimizer.hpp"

using namespace dcp;
using test::random_text;
using test::small_model;
using test::Text;
using test::Weights;
using Subject = test::ModelOn<test::TestQueue>;

namespace {

std::vector<double> expected_losses(const config::ModelConfig& config,
                                    const Weights& weights,
                                    const Text& text) {
    std::vector<double> losses;
    for (std::size_t s = 0; s < text.tokens.size(); ++s) {
        const auto part = test::reference_losses(config, weights, text.tokens[s], text.targets[s]);
        losses.insert(losses.end(), part.begin(), part.end());
    }
    return losses;
}

double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

// Errors of one token's loss: roundings of about `terms` numbers of size one, random in sign,
// through a network that does not amplify much. A tenth of the terms' square root is what such sums
// have; 20 covers the spread over seeds.
double loss_tolerance(DType compute, const config::ModelConfig& config) {
    const double terms = static_cast<double>(config.layers * (config.hidden + config.ffn));
    return 20 * epsilon(compute) * std::sqrt(terms) / 10;
}

// Derivative of the weighted loss along `direction` in one tensor, four points, in double.
double directional_derivative(const config::ModelConfig& config,
                              const Weights& weights,
                              const std::string& name,
                              const std::vector<double>& direction,
                              const Text& text,
                              double weight) {
    const auto at = [&](double step) {
        Weights moved = weights;
        for (std::size_t i = 0; i < direction.size(); ++i) {
            moved[name][i] += step * direction[i];
        }
        return weight * sum(expected_losses(config, moved, text));
    };
    const double h = 1e-3;
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
}

}  // namespace

TEST_CASE("losses agree with the double-precision model, packed or one by one", "[unit][model]") {
    const auto config = test::model_variants()[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
    const auto compute = GENERATE(DType::kFloat32, DType::kBFloat16);
    if (!kernels::supports_dtype(test::TestQueue(1), compute)) {
        return;
    }
    Subject subject(config, compute, 2);
    const Text text = random_text({1, 17, 2, 33, 5}, config.vocab);
    const auto expected = expected_losses(config, subject.weights(), text);
    const auto packed = subject.evaluate(text);
    std::size_t token = 0;
    for (std::size_t s = 0; s < text.tokens.size(); ++s) {
        const auto alone =
            subject.evaluate({.tokens = {text.tokens[s]}, .targets = {text.targets[s]}});
        for (std::size_t i = 0; i < alone.size(); ++i, ++token) {
            CHECK(static_cast<double>(packed[token]) ==
                  Approx(expected[token]).margin(loss_tolerance(compute, config)));
            CHECK(static_cast<double>(alone[i]) ==
                  Approx(expected[token]).margin(loss_tolerance(compute, config)));
        }
    }
}

TEST_CASE("every gradient is the derivative of the double-precision loss", "[unit][model]") {
    const auto config = test::model_variants()[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
    Subject subject(config, DType::kFloat32, 2);
    const Text text = random_text({9, 1, 20}, config.vocab);
    const double weight = 1.0 / 30;
    subject.zero_gradients();
    subject.train(text, static_cast<float>(weight), 0);
    const auto gradients = subject.gradients();
    const Weights weights = subject.weights();
    for (const model::ParameterSlot& slot : subject.model().layout().slots()) {
        const CounterRng rng(5, "direction", hash_name(slot.name));
        std::vector<double> direction(static_cast<std::size_t>(slot.shape.num_elems()));
        double along = 0;
        double norm = 0;
        for (std::size_t i = 0; i < direction.size(); ++i) {
            direction[i] = rng.normal(i);
            const double gradient =
                static_cast<double>(gradients[static_cast<std::size_t>(slot.offset) + i]);
            along += gradient * direction[i];
            norm += gradient * gradient;
        }
        const double expected =
            directional_derivative(config, weights, slot.name, direction, text, weight);
        INFO(slot.name << " norm " << std::sqrt(norm));
        CHECK(along == Approx(expected).margin(1e-4 * std::sqrt(norm)));
    }
}

TEST_CASE("a spoilt gradient is noticed", "[unit][model]") {
    const auto config = small_model();
    Subject subject(config, DType::kFloat32, 1);
    const Text text = random_text({9, 20}, config.vocab);
    subject.zero_gradients();
    subject.train(text, 1, 0);
    const model::ParameterSlot& slot =
        subject.model().layout().slot("model.layers.0.self_attn.k_proj.weight");
    std::vector<double> direction(static_cast<std::size_t>(slot.shape.num_elems()), 1.0);
    const float* gradient = subject.model().gradients().as<float>() + slot.offset;
    const double along =
        1.01 * static_cast<double>(std::accumulate(gradient, gradient + direction.size(), 0.0F));
    const double expected =
        directional_derivative(config, subject.weights(), slot.name, direction, text, 1);
    CHECK_FALSE(along == Approx(expected).epsilon(1e-3));
}

TEST_CASE("recomputation changes no bit of loss or gradients", "[unit][model]") {
    const auto compute = GENERATE(DType::kFloat32, DType::kBFloat16);
    if (!kernels::supports_dtype(test::TestQueue(1), compute)) {
        return;
    }
    const auto config = test::model_variants()[static_cast<std::size_t>(GENERATE(0, 1))];
    const Text text = random_text({40, 3, 1, 65}, config.vocab);
    std::vector<std::vector<float>> losses, gradients;
    for (const std::int64_t recompute_layers : {0, 1, 2}) {
        Subject subject(config, compute, 2);
        subject.zero_gradients();
        losses.push_back(subject.train(text, 0.01F, recompute_layers));
        gradients.push_back(subject.gradients());
    }
    for (const std::size_t other : {1U, 2U}) {
        CHECK(std::memcmp(losses[0].data(), losses[other].data(),
                          losses[0].size() * sizeof(float)) == 0);
        CHECK(std::memcmp(gradients[0].data(), gradients[other].data(),
                          gradients[0].size() * sizeof(float)) == 0);
    }
}

TEST_CASE("fp32 gradients have the same bits for any number of threads, and twice in a row",
          "[unit][model]") {
    const auto config = small_model();
    const Text text = random_text({130, 3, 1, 65, 300}, config.vocab);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 2}) {
        Subject subject(config, DType::kFloat32, threads);
        subject.zero_gradients();
        subject.train(text, 0.01F, 0);
        const auto gradients = subject.gradients();
        if (first.empty()) {
            first = gradients;
        }
        CHECK(std::memcmp(first.data(), gradients.data(), first.size() * sizeof(float)) == 0);
    }
}

TEST_CASE("gradients of micro-batches add up to those of the whole", "[unit][model]") {
    const auto config = small_model();
    const Text whole = random_text({30, 1, 12, 50}, config.vocab);
    Subject together(config, DType::kFloat32, 2);
    together.zero_gradients();
    together.train(whole, 1.0F / 93, 0);
    Subject apart(config, DType::kFloat32, 2);
    apart.zero_gradients();
    for (const std::size_t s : {3U, 0U, 1U, 2U}) {
        apart.train({.tokens = {whole.tokens[s]}, .targets = {whole.targets[s]}}, 1.0F / 93, 1);
    }
    const auto a = together.gradients();
    const auto b = apart.gradients();
    for (const model::ParameterSlot& slot : together.model().layout().slots()) {
        double difference = 0;
        double norm = 0;
        for (std::int64_t i = slot.offset; i < slot.offset + slot.shape.num_elems(); ++i) {
            const auto place = static_cast<std::size_t>(i);
            difference += std::pow(static_cast<double>(a[place] - b[place]), 2);
            norm += std::pow(static_cast<double>(a[place]), 2);
        }
        INFO(slot.name);
        CHECK(std::sqrt(difference) <= 1e-5 * std::sqrt(norm));  // design section 5
    }
}

TEST_CASE("a masked token has no loss and no gradient", "[unit][model]") {
    const auto config = small_model();
    Text text = random_text({12, 7}, config.vocab);
    std::fill(text.targets[0].begin(), text.targets[0].end(), -1);
    Subject masked(config, DType::kFloat32, 1);
    masked.zero_gradients();
    const auto losses = masked.train(text, 0.1F, 0);
    CHECK(std::all_of(losses.begin(), losses.begin() + 12, [](float loss) { return loss == 0; }));
    Subject all_masked(config, DType::kFloat32, 1);
    std::fill(text.targets[1].begin(), text.targets[1].end(), -1);
    all_masked.zero_gradients();
    all_masked.train(text, 0.1F, 0);
    const auto gradients = all_masked.gradients();
    CHECK(std::all_of(gradients.begin(), gradients.end(),
                      [](float gradient) { return gradient == 0; }));
}

TEST_CASE("predicted bytes are the arena's highest mark", "[unit][model][memory]") {
    const auto config = test::model_variants()[static_cast<std::size_t>(GENERATE(0, 1, 2))];
    const auto length = GENERATE(1, 33, 200);
    Subject subject(config, DType::kFloat32, 2);
    const Text text = random_text({length, 5}, config.vocab);
    const std::int64_t T = length + 5;
    for (const std::int64_t recompute_layers : {0, 1, 2}) {
        const std::int64_t held = subject.arena().current_bytes();
        subject.arena().reset_peak();
        subject.train(text, 1, recompute_layers);
        CHECK(subject.arena().peak_bytes() - held ==
              subject.model().training_bytes(subject.queue(), subject.attention(), T,
                                             recompute_layers));
        CHECK(subject.arena().current_bytes() == held);
    }
    const std::int64_t held = subject.arena().current_bytes();
    subject.arena().reset_peak();
    subject.evaluate(text);
    CHECK(subject.arena().peak_bytes() - held ==
          subject.model().evaluation_bytes(subject.queue(), T));
}

TEST_CASE("parameter counts follow the formulas", "[unit][model]") {
    config::ModelConfig config;  // reference: Llama-2-7B
    config.hidden = 4096;
    config.layers = 32;
    config.heads = 32;
    config.kv_heads = 32;
    config.head_dim = 128;
    config.ffn = 11008;
    config.vocab = 32000;
    CHECK(model::ParameterLayout(config).num_parameters() == 6'738'415'616);
    CHECK(model::count_parameters(config) == 6'738'415'616);
    for (const auto& variant : test::model_variants()) {
        CHECK(model::ParameterLayout(variant).num_parameters() == model::count_parameters(variant));
    }
}
