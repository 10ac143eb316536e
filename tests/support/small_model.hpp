// A model small enough for references and emulated kernels, a text for it, and how tests run it:
// weights spread, micro-batches packed, gradients read. The emulator's memory is the host's, so one
// class serves both backends.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/reference_model.hpp"
#include "tests/support/test_queue.hpp"

#include "core/base/rng.hpp"
#include "core/model/transformer.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::test {

inline config::ModelConfig small_model() {
    config::ModelConfig config;
    config.hidden = 24;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.head_dim = kSmallHeadDim;
    config.ffn = 37;  // odd sizes: vector tails everywhere
    config.vocab = 29;
    return config;
}

struct Text {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<std::vector<std::int32_t>> targets;
};

inline Text random_text(const std::vector<std::int64_t>& lengths, std::int64_t vocab) {
    Text text;
    const CounterRng rng(7, "text", 0);
    std::uint64_t element = 0;
    const auto token = [&] {
        return static_cast<std::int32_t>(rng.word(element++) % static_cast<std::uint64_t>(vocab));
    };
    for (const std::int64_t length : lengths) {
        text.tokens.emplace_back();
        text.targets.emplace_back();
        for (std::int64_t i = 0; i < length; ++i) {
            text.tokens.back().push_back(token());
            text.targets.back().push_back(token());
        }
    }
    return text;
}

inline std::vector<config::ModelConfig> model_variants() {
    std::vector<config::ModelConfig> all(4, small_model());
    all[1].norm = config::NormKind::kLayerNorm;
    all[1].activation = config::Activation::kGelu;
    all[1].tie_embeddings = true;
    all[2].causal = false;
    all[2].kv_heads = 4;
    all[3].positions = config::Positions::kNone;
    all[3].kv_heads = 1;
    all[3].head_dim = kOddHeadDim;
    return all;
}

// A model with its memory on a queue of its own, and micro-batches made from a text.
template <class OwnQueue>
class ModelOn {
public:
    ModelOn(const config::ModelConfig& config, DType compute, int threads)
        : queue_(threads),
          arena_(std::int64_t{256} << 20),
          model_(config, compute, 256, model::Purpose::kTraining, queue_, arena_) {
        model_.initialize(queue_, 3);
        // Initial norms are all one and matrices tiny; spread everything so that no term hides
        // behind another.
        auto* values = model_.parameters().as<float>();
        for (const model::ParameterSlot& slot : model_.layout().slots()) {
            const CounterRng rng(11, "spread", hash_name(slot.name));
            for (std::int64_t i = 0; i < slot.shape.num_elems(); ++i) {
                float& value = values[slot.offset + i];
                value = slot.decays ? 12 * value
                                    : value + 0.3F * static_cast<float>(
                                                         rng.normal(static_cast<std::uint64_t>(i)));
            }
        }
        model_.prepare(queue_);
    }

    // Gradients are added to; returns the losses of all tokens. Every token's loss counts `weight`.
    std::vector<float> train(const Text& text, float weight, std::int64_t recompute_layers) {
        const Arena::Scope scratch(arena_);
        return run(text, weight, [&](const model::MicroBatch& batch, Tensor loss) {
            model_.train_micro_batch(queue_, arena_, batch, attention_, recompute_layers, loss);
        });
    }

    std::vector<float> evaluate(const Text& text) {
        const Arena::Scope scratch(arena_);
        return run(text, 1, [&](const model::MicroBatch& batch, Tensor loss) {
            model_.evaluate_micro_batch(queue_, arena_, batch, loss);
        });
    }

    Weights weights() const {
        Weights weights;
        for (const model::ParameterSlot& slot : model_.layout().slots()) {
            const float* values = model_.parameters().as<float>() + slot.offset;
            weights[slot.name] = std::vector<double>(values, values + slot.shape.num_elems());
        }
        return weights;
    }

    std::vector<float> gradients() const {
        const float* values = model_.gradients().as<float>();
        return {values, values + model_.gradients().num_elems()};
    }

    std::vector<float> parameters() const {
        const float* values = model_.parameters().template as<float>();
        return {values, values + model_.parameters().num_elems()};
    }
    void set_parameters(const std::vector<float>& values) {
        std::copy(values.begin(), values.end(), model_.parameters().template as<float>());
        model_.prepare(queue_);
    }

    void zero_gradients() { kernels::fill_zero(queue_, model_.gradients()); }
    model::Transformer& model() { return model_; }
    Arena& arena() { return arena_; }
    Queue& queue() { return queue_; }
    const model::SequenceAttention& attention() const { return attention_; }

private:
    template <class Run>
    std::vector<float> run(const Text& text, float weight, const Run& run_pass) {
        std::vector<std::int32_t> tokens, targets, positions;
        model::MicroBatch batch;
        for (std::size_t s = 0; s < text.tokens.size(); ++s) {
            const auto begin = static_cast<std::int64_t>(tokens.size());
            const auto count = static_cast<std::int64_t>(text.tokens[s].size());
            tokens.insert(tokens.end(), text.tokens[s].begin(), text.tokens[s].end());
            targets.insert(targets.end(), text.targets[s].begin(), text.targets[s].end());
            for (std::int32_t position = 0; position < count; ++position) {
                positions.push_back(position);
            }
            batch.spans.push_back({.q_begin = begin,
                                   .q_count = count,
                                   .k_begin = begin,
                                   .k_count = count,
                                   .q_offset = 0});
        }
        const auto T = static_cast<std::int64_t>(tokens.size());
        const std::vector<float> weights(tokens.size(), weight);
        std::vector<float> losses(tokens.size(), std::nanf(""));
        batch.tokens_T = ConstTensor(tokens.data(), DType::kInt32, {T});
        batch.targets_T = ConstTensor(targets.data(), DType::kInt32, {T});
        batch.positions_T = ConstTensor(positions.data(), DType::kInt32, {T});
        batch.weights_T = ConstTensor(weights.data(), DType::kFloat32, {T});
        run_pass(batch, Tensor(losses.data(), DType::kFloat32, {T}));
        return losses;
    }

    OwnQueue queue_;
    Arena arena_;
    model::Transformer model_;
    model::LocalAttention attention_;
};

}  // namespace dcp::test
