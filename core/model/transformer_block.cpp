#include "core/model/transformer_block.hpp"

#include <algorithm>

namespace dcp::model {

namespace {

using kernels::InputKind;
using kernels::LinearWeight;

LinearWeight allocate_weight(const Queue& queue, Arena& arena, DType compute, ConstTensor master) {
    const std::int64_t N = master.dim(0);
    const std::int64_t K = master.dim(1);
    const auto bytes =
        static_cast<std::int64_t>(kernels::linear_prepared_bytes(queue, compute, N, K));
    return {.prepared = arena.allocate("prepared weight", MemoryCategory::kParameters,
                                       DType::kUInt8, {bytes}),
            .dtype = compute,
            .N = N,
            .K = K};
}

}  // namespace

TransformerBlock::TransformerBlock(const config::ModelConfig& config,
                                   DType compute,
                                   const BlockTensors& parameters,
                                   const BlockTensors& gradients,
                                   const kernels::RopeTable& rope,
                                   const Queue& queue,
                                   Arena& arena)
    : config_(config),
      compute_(compute),
      attention_shape_{.heads = config.heads,
                       .kv_heads = config.kv_heads,
                       .head_dim = config.head_dim,
                       .causal = config.causal},
      parameters_(parameters),
      gradients_(gradients),
      rope_(rope),
      qkv_(allocate_weight(queue, arena, compute, parameters.qkv_NC)),
      o_(allocate_weight(queue, arena, compute, parameters.o_CN)),
      up_(allocate_weight(queue, arena, compute, parameters.up_FC)),
      down_(allocate_weight(queue, arena, compute, parameters.down_CF)) {}

void TransformerBlock::prepare(Queue& queue) {
    kernels::linear_prepare(queue, parameters_.qkv_NC, qkv_);
    kernels::linear_prepare(queue, parameters_.o_CN, o_);
    kernels::linear_prepare(queue, parameters_.up_FC, up_);
    kernels::linear_prepare(queue, parameters_.down_CF, down_);
}

void TransformerBlock::allocate_saved(PassContext& pass) {
    const std::int64_t T = pass.batch.num_tokens();
    const auto keep = [&](const char* name, DType dtype, Shape shape) {
        return pass.arena.allocate(name, MemoryCategory::kActivations, dtype, shape);
    };
    const bool has_mean = config_.norm == config::NormKind::kLayerNorm;
    saved_.qkv_TN = pass.attention.keeps_qkv() ? Tensor() : keep("qkv", compute_, {T, qkv_.N});
    saved_.o_TN = keep("attention output", compute_, {T, o_.K});
    saved_.attention_state = keep("attention state", DType::kUInt8,
                                  {pass.attention.state_bytes(attention_shape_, compute_, T)});
    saved_.x_mid_TC = keep("x_mid", compute_, {T, config_.hidden});
    saved_.up_TF = keep("up", compute_, {T, up_.N});
    saved_.attention_inverse_T = keep("attention norm", DType::kFloat32, {T});
    saved_.ffn_inverse_T = keep("ffn norm", DType::kFloat32, {T});
    if (has_mean) {
        saved_.attention_mean_T = keep("attention norm mean", DType::kFloat32, {T});
        saved_.ffn_mean_T = keep("ffn norm mean", DType::kFloat32, {T});
    }
}

std::int64_t TransformerBlock::saved_bytes(const AttentionBytes& attention, std::int64_t T) const {
    const std::int64_t statistics = config_.norm == config::NormKind::kLayerNorm ? 4 : 2;
    const std::int64_t state = attention.state_bytes(attention_shape_, compute_, T);
    return (attention.keeps_qkv() ? 0 : Arena::padded_bytes(compute_, {T, qkv_.N})) +
           Arena::padded_bytes(DType::kUInt8, {state}) + Arena::padded_bytes(compute_, {T, o_.K}) +
           Arena::padded_bytes(compute_, {T, config_.hidden}) +
           Arena::padded_bytes(compute_, {T, up_.N}) +
           statistics * Arena::padded_bytes(DType::kFloat32, {T});
}

kernels::LinearInput TransformerBlock::attention_input(ConstTensor x_TC) const {
    return {.kind = config_.norm == config::NormKind::kLayerNorm ? InputKind::kLayerNorm
                                                                 : InputKind::kRmsNorm,
            .x = x_TC,
            .norm_weight_K = parameters_.attention_norm_C,
            .norm_bias_K = parameters_.attention_norm_bias_C,
            .mean_T = saved_.attention_mean_T,
            .inverse_rms_T = saved_.attention_inverse_T,
            .epsilon = static_cast<float>(config_.norm_eps)};
}

kernels::LinearInput TransformerBlock::attention_output() const {
    return {.kind = InputKind::kPlain, .x = saved_.o_TN};
}

kernels::LinearInput TransformerBlock::ffn_input() const {
    return {.kind = config_.norm == config::NormKind::kLayerNorm ? InputKind::kLayerNorm
                                                                 : InputKind::kRmsNorm,
            .x = saved_.x_mid_TC,
            .norm_weight_K = parameters_.ffn_norm_C,
            .norm_bias_K = parameters_.ffn_norm_bias_C,
            .mean_T = saved_.ffn_mean_T,
            .inverse_rms_T = saved_.ffn_inverse_T,
            .epsilon = static_cast<float>(config_.norm_eps)};
}

kernels::LinearInput TransformerBlock::ffn_activation() const {
    return {.kind = config_.activation == config::Activation::kSwiGlu ? InputKind::kSwiGlu
                                                                      : InputKind::kGelu,
            .x = saved_.up_TF};
}

std::int64_t TransformerBlock::linear_scratch_bytes(const Queue& queue,
                                                    const LinearWeight& weight,
                                                    std::int64_t T) const {
    const std::size_t bytes =
        kernels::linear_workspace_bytes(queue, weight.dtype, T, weight.N, weight.K);
    return Arena::padded_bytes(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
}

Tensor TransformerBlock::linear_workspace(PassContext& pass, const LinearWeight& weight) const {
    const std::int64_t bytes = linear_scratch_bytes(pass.queue, weight, pass.batch.num_tokens());
    return pass.arena.allocate("linear workspace", MemoryCategory::kWorkspace, DType::kUInt8,
                               {bytes});
}

// x -> o. Where attention keeps what it needs of qkv, the rest of it goes when this returns.
void TransformerBlock::forward_attention(PassContext& pass, ConstTensor x_TC) {
    const Arena::Scope scratch(pass.arena);
    const std::int64_t T = pass.batch.num_tokens();
    const Tensor qkv_TN = saved_.qkv_TN ? saved_.qkv_TN
                                        : pass.arena.allocate("qkv", MemoryCategory::kActivations,
                                                              compute_, {T, qkv_.N});
    kernels::RopeColumns rope;
    if (config_.positions == config::Positions::kRope) {
        rope = {.num_heads = config_.heads + config_.kv_heads,
                .head_dim = config_.head_dim,
                .positions_T = pass.batch.positions_T,
                .cos_PD = rope_.cos_PD,
                .sin_PD = rope_.sin_PD};
    }
    {
        const Arena::Scope product(pass.arena);
        kernels::linear_forward(pass.queue, {.input = attention_input(x_TC),
                                             .weight = qkv_,
                                             .y_TN = qkv_TN,
                                             .rope = rope,
                                             .workspace = linear_workspace(pass, qkv_)});
    }
    pass.attention.forward(pass.queue, pass.arena, pass.batch, attention_shape_, qkv_TN,
                           saved_.o_TN, saved_.attention_state);
}

void TransformerBlock::forward(PassContext& pass, ConstTensor x_TC, Tensor y_TC) {
    forward_attention(pass, x_TC);
    const auto product = [&](kernels::LinearForward args) {
        const Arena::Scope scratch(pass.arena);
        args.workspace = linear_workspace(pass, args.weight);
        kernels::linear_forward(pass.queue, args);
    };
    product(
        {.input = attention_output(), .weight = o_, .residual_TN = x_TC, .y_TN = saved_.x_mid_TC});
    product({.input = ffn_input(), .weight = up_, .y_TN = saved_.up_TF});
    if (y_TC) {  // empty when this runs again only for what is saved
        product({.input = ffn_activation(),
                 .weight = down_,
                 .residual_TN = saved_.x_mid_TC,
                 .y_TN = y_TC});
    }
}

void TransformerBlock::backward(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC) {
    backward_ffn(pass, d_x_TC);
    backward_attention(pass, x_TC, d_x_TC);
}

// In: d_x is the gradient of y. Out: d_x is the gradient of x_mid. Weight gradients come first, as
// the input gradient overwrites `up`.
void TransformerBlock::backward_ffn(PassContext& pass, Tensor d_x_TC) {
    const Arena::Scope scratch(pass.arena);
    {
        const Arena::Scope products(pass.arena);
        const Tensor workspace = linear_workspace(pass, down_);
        kernels::linear_backward_weight(pass.queue, {.d_y_TN = d_x_TC,
                                                     .input = ffn_activation(),
                                                     .weight = down_,
                                                     .d_w_NK = gradients_.down_CF,
                                                     .workspace = workspace});
        kernels::linear_backward_input(pass.queue, {.d_y_TN = d_x_TC,
                                                    .input = ffn_activation(),
                                                    .weight = down_,
                                                    .d_x = saved_.up_TF,
                                                    .workspace = workspace});
    }
    const Tensor workspace = linear_workspace(pass, up_);
    kernels::linear_backward_weight(pass.queue, {.d_y_TN = saved_.up_TF,
                                                 .input = ffn_input(),
                                                 .weight = up_,
                                                 .d_w_NK = gradients_.up_FC,
                                                 .workspace = workspace});
    kernels::linear_backward_input(pass.queue, {.d_y_TN = saved_.up_TF,
                                                .input = ffn_input(),
                                                .weight = up_,
                                                .residual_TK = d_x_TC,
                                                .d_x = d_x_TC,
                                                .d_norm_weight_K = gradients_.ffn_norm_C,
                                                .d_norm_bias_K = gradients_.ffn_norm_bias_C,
                                                .workspace = workspace});
}

// In: d_x is the gradient of x_mid. Out: d_x is the gradient of x.
void TransformerBlock::backward_attention(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC) {
    const Arena::Scope scratch(pass.arena);
    const std::int64_t T = pass.batch.num_tokens();
    const Tensor d_o_TN =
        pass.arena.allocate("d_o", MemoryCategory::kActivations, compute_, {T, o_.K});
    {
        const Arena::Scope products(pass.arena);
        const Tensor workspace = linear_workspace(pass, o_);
        kernels::linear_backward_weight(pass.queue, {.d_y_TN = d_x_TC,
                                                     .input = attention_output(),
                                                     .weight = o_,
                                                     .d_w_NK = gradients_.o_CN,
                                                     .workspace = workspace});
        kernels::linear_backward_input(pass.queue, {.d_y_TN = d_x_TC,
                                                    .input = attention_output(),
                                                    .weight = o_,
                                                    .d_x = d_o_TN,
                                                    .workspace = workspace});
    }
    const Tensor d_qkv_TN =
        pass.arena.allocate("d_qkv", MemoryCategory::kActivations, compute_, {T, qkv_.N});
    pass.attention.backward(pass.queue, pass.arena, pass.batch, attention_shape_, saved_.qkv_TN,
                            saved_.o_TN, saved_.attention_state, d_o_TN, d_qkv_TN);
    rotate_back(pass, d_qkv_TN);
    const Tensor workspace = linear_workspace(pass, qkv_);
    kernels::linear_backward_weight(pass.queue, {.d_y_TN = d_qkv_TN,
                                                 .input = attention_input(x_TC),
                                                 .weight = qkv_,
                                                 .d_w_NK = gradients_.qkv_NC,
                                                 .workspace = workspace});
    kernels::linear_backward_input(pass.queue, {.d_y_TN = d_qkv_TN,
                                                .input = attention_input(x_TC),
                                                .weight = qkv_,
                                                .residual_TK = d_x_TC,
                                                .d_x = d_x_TC,
                                                .d_norm_weight_K = gradients_.attention_norm_C,
                                                .d_norm_bias_K = gradients_.attention_norm_bias_C,
                                                .workspace = workspace});
}

void TransformerBlock::rotate_back(PassContext& pass, Tensor d_qkv_TN) const {
    if (config_.positions != config::Positions::kRope) {
        return;
    }
    const std::int64_t heads = config_.heads + config_.kv_heads;
    const Tensor d_qk_THD = d_qkv_TN.columns(0, heads * config_.head_dim)
                                .reshaped({d_qkv_TN.dim(0), heads, config_.head_dim});
    kernels::rope(pass.queue, {.x_THD = d_qk_THD,
                               .positions_T = pass.batch.positions_T,
                               .cos_PD = rope_.cos_PD,
                               .sin_PD = rope_.sin_PD,
                               .inverse = true});
}

std::int64_t TransformerBlock::forward_scratch_bytes(const Queue& queue,
                                                     const AttentionBytes& attention,
                                                     std::int64_t T) const {
    const std::int64_t qkv = attention.keeps_qkv() ? Arena::padded_bytes(compute_, {T, qkv_.N}) : 0;
    const std::int64_t exchange =
        attention.forward_scratch_bytes(queue, attention_shape_, compute_, T);
    return std::max({qkv + std::max(linear_scratch_bytes(queue, qkv_, T), exchange),
                     linear_scratch_bytes(queue, o_, T), linear_scratch_bytes(queue, up_, T),
                     linear_scratch_bytes(queue, down_, T)});
}

std::int64_t TransformerBlock::backward_scratch_bytes(const Queue& queue,
                                                      const AttentionBytes& attention,
                                                      std::int64_t T) const {
    const std::int64_t d_o = Arena::padded_bytes(compute_, {T, o_.K});
    const std::int64_t d_qkv = Arena::padded_bytes(compute_, {T, qkv_.N});
    const std::int64_t exchange =
        attention.backward_scratch_bytes(queue, attention_shape_, compute_, T);
    return std::max({linear_scratch_bytes(queue, down_, T), linear_scratch_bytes(queue, up_, T),
                     d_o + linear_scratch_bytes(queue, o_, T),
                     d_o + d_qkv + std::max(exchange, linear_scratch_bytes(queue, qkv_, T))});
}

}  // namespace dcp::model
