#include "core/model/parameters.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::model {

namespace {

constexpr std::int64_t kGroupAlignElems = 16;

std::string layer_name(std::int64_t layer, std::string_view rest) {
    return fmt::format("model.layers.{}.{}", layer, rest);
}

}  // namespace

ParameterLayout::ParameterLayout(const config::ModelConfig& config) {
    const std::int64_t C = config.hidden;
    const std::int64_t F = config.ffn;
    const std::int64_t q_features = config.heads * config.head_dim;
    const std::int64_t kv_features = config.kv_heads * config.head_dim;
    const bool has_bias = config.norm == config::NormKind::kLayerNorm;

    add("model.embed_tokens.weight", {config.vocab, C}, true);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        add(layer_name(layer, "self_attn.q_proj.weight"), {q_features, C}, true);
        add(layer_name(layer, "self_attn.k_proj.weight"), {kv_features, C}, false);
        add(layer_name(layer, "self_attn.v_proj.weight"), {kv_features, C}, false);
        add(layer_name(layer, "self_attn.o_proj.weight"), {C, q_features}, true);
        if (config.activation == config::Activation::kSwiGlu) {
            add(layer_name(layer, "mlp.gate_proj.weight"), {F, C}, true);
            add(layer_name(layer, "mlp.up_proj.weight"), {F, C}, false);
        } else {
            add(layer_name(layer, "mlp.up_proj.weight"), {F, C}, true);
        }
        add(layer_name(layer, "mlp.down_proj.weight"), {C, F}, true);
    }
    if (!config.tie_embeddings) {
        add("lm_head.weight", {config.vocab, C}, true);
    }
    decaying_elems_ = flat_elems_;

    const auto add_norm = [&](const std::string& name) {
        add(name + ".weight", {C}, true);
        if (has_bias) {
            add(name + ".bias", {C}, true);
        }
    };
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        add_norm(layer_name(layer, "input_layernorm"));
        add_norm(layer_name(layer, "post_attention_layernorm"));
    }
    add_norm("model.norm");
}

void ParameterLayout::add(std::string name, Shape shape, bool starts_group) {
    if (starts_group) {
        flat_elems_ = (flat_elems_ + kGroupAlignElems - 1) / kGroupAlignElems * kGroupAlignElems;
    }
    const bool decays = shape.num_dims() == 2;
    slots_.push_back(
        {.name = std::move(name), .shape = shape, .offset = flat_elems_, .decays = decays});
    flat_elems_ += shape.num_elems();
    num_parameters_ += shape.num_elems();
}

const ParameterSlot& ParameterLayout::slot(std::string_view name) const {
    const auto found = std::find_if(slots_.begin(), slots_.end(),
                                    [&](const ParameterSlot& slot) { return slot.name == name; });
    if (found == slots_.end()) {
        throw ShapeError(fmt::format("the model has no parameter '{}'", name));
    }
    return *found;
}

Tensor view(Tensor flat, const ParameterSlot& slot) {
    return flat.rows(slot.offset, slot.shape.num_elems()).reshaped(slot.shape);
}

BlockTensors block_tensors(const config::ModelConfig& config,
                           const ParameterLayout& layout,
                           Tensor flat,
                           std::int64_t layer) {
    const auto tensor = [&](std::string_view rest, std::int64_t rows) {
        const ParameterSlot& first = layout.slot(layer_name(layer, rest));
        const std::int64_t columns = first.shape[1];
        return flat.rows(first.offset, rows * columns).reshaped({rows, columns});
    };
    const auto norm = [&](std::string_view rest) {
        return view(flat, layout.slot(layer_name(layer, rest)));
    };
    const bool has_bias = config.norm == config::NormKind::kLayerNorm;
    const bool gated = config.activation == config::Activation::kSwiGlu;
    return {.attention_norm_C = norm("input_layernorm.weight"),
            .attention_norm_bias_C = has_bias ? norm("input_layernorm.bias") : Tensor{},
            .qkv_NC = tensor("self_attn.q_proj.weight",
                             (config.heads + 2 * config.kv_heads) * config.head_dim),
            .o_CN = tensor("self_attn.o_proj.weight", config.hidden),
            .ffn_norm_C = norm("post_attention_layernorm.weight"),
            .ffn_norm_bias_C = has_bias ? norm("post_attention_layernorm.bias") : Tensor{},
            .up_FC = gated ? tensor("mlp.gate_proj.weight", 2 * config.ffn)
                           : tensor("mlp.up_proj.weight", config.ffn),
            .down_CF = tensor("mlp.down_proj.weight", config.hidden)};
}

std::int64_t count_parameters(const config::ModelConfig& config) {
    const std::int64_t C = config.hidden;
    const std::int64_t norm = config.norm == config::NormKind::kLayerNorm ? 2 * C : C;
    const std::int64_t attention = C * (2 * config.heads + 2 * config.kv_heads) * config.head_dim;
    const std::int64_t ffn =
        (config.activation == config::Activation::kSwiGlu ? 3 : 2) * C * config.ffn;
    return config.layers * (attention + ffn + 2 * norm) +
           config.vocab * C * (config.tie_embeddings ? 1 : 2) + norm;
}

}  // namespace dcp::model
