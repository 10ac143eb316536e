#include "core/model/transformer.hpp"

#include <algorithm>

#include "core/model/transformer_block.hpp"
#include "kernels/embedding.hpp"

namespace dcp::model {

namespace {

Tensor slot_view(Tensor flat, const ParameterLayout& layout, std::string_view name) {
    return flat ? view(flat, layout.slot(name)) : Tensor{};
}

}  // namespace

Transformer::Transformer(const config::ModelConfig& config,
                         DType compute,
                         std::int64_t max_positions,
                         Purpose purpose,
                         Queue& queue,
                         Arena& arena)
    : config_(config), compute_(compute), layout_(config) {
    const bool trains = purpose == Purpose::kTraining;
    const bool has_bias = config.norm == config::NormKind::kLayerNorm;
    const Shape flat{layout_.flat_elems()};
    parameters_ = arena.allocate("parameters", MemoryCategory::kParameters, DType::kFloat32, flat);
    if (trains) {
        gradients_ = arena.allocate("gradients", MemoryCategory::kGradients, DType::kFloat32, flat);
    }
    embedding_VC_ = slot_view(parameters_, layout_, "model.embed_tokens.weight");
    d_embedding_VC_ = slot_view(gradients_, layout_, "model.embed_tokens.weight");
    const std::string_view head_name =
        config.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
    head_VC_ = slot_view(parameters_, layout_, head_name);
    d_head_VC_ = slot_view(gradients_, layout_, head_name);
    norm_C_ = slot_view(parameters_, layout_, "model.norm.weight");
    d_norm_C_ = slot_view(gradients_, layout_, "model.norm.weight");
    if (has_bias) {
        norm_bias_C_ = slot_view(parameters_, layout_, "model.norm.bias");
        d_norm_bias_C_ = slot_view(gradients_, layout_, "model.norm.bias");
    }
    if (config.positions == config::Positions::kRope) {
        const Shape table{max_positions, config.head_dim / 2};
        rope_ = {.cos_PD = arena.allocate("rope cosines", MemoryCategory::kParameters,
                                          DType::kFloat32, table),
                 .sin_PD = arena.allocate("rope sines", MemoryCategory::kParameters,
                                          DType::kFloat32, table)};
        kernels::rope_fill_table(queue, rope_, config.rope_theta);
    }
    const auto head_bytes = static_cast<std::int64_t>(
        kernels::linear_prepared_bytes(queue, compute, config.vocab, config.hidden));
    head_ = {.prepared = arena.allocate("prepared head", MemoryCategory::kParameters, DType::kUInt8,
                                        {head_bytes}),
             .dtype = compute,
             .N = config.vocab,
             .K = config.hidden};
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        blocks_.push_back(std::make_unique<TransformerBlock>(
            config, compute, block_tensors(config, layout_, parameters_, layer),
            trains ? block_tensors(config, layout_, gradients_, layer) : BlockTensors{}, rope_,
            queue, arena));
    }
}

void Transformer::prepare(Queue& queue) {
    for (const auto& block : blocks_) {
        block->prepare(queue);
    }
    kernels::linear_prepare(queue, head_VC_, head_);
}

void Transformer::train_micro_batch(Queue& queue,
                                    Arena& arena,
                                    const MicroBatch& batch,
                                    SequenceAttention& attention,
                                    std::int64_t recompute_layers,
                                    Tensor loss_T) {
    const Arena::Scope scratch(arena);
    PassContext pass{
        .queue = queue, .arena = arena, .batch = batch, .attention = attention, .conditioning = {}};
    const Shape activation{batch.num_tokens(), config_.hidden};
    const Tensor d_x_TC = arena.allocate("d_x", MemoryCategory::kActivations, compute_, activation);
    const Tensor x_TC = arena.allocate("x", MemoryCategory::kActivations, compute_, activation);
    embed(queue, batch.tokens_T, x_TC);
    train_blocks(pass, 0, recompute_layers, x_TC, d_x_TC, loss_T);
    kernels::embedding_backward(
        queue, {.tokens_T = batch.tokens_T, .d_x_TC = d_x_TC, .d_table_VC = d_embedding_VC_});
}

void Transformer::embed(Queue& queue, ConstTensor tokens_T, Tensor x_TC) const {
    kernels::embedding_forward(queue,
                               {.tokens_T = tokens_T, .table_VC = embedding_VC_, .x_TC = x_TC});
}

void Transformer::train_ends(Queue& queue, Arena& arena, const MicroBatch& batch, Tensor loss_T) {
    const Arena::Scope scratch(arena);
    PassContext pass{.queue = queue,
                     .arena = arena,
                     .batch = batch,
                     .attention = local_attention_,
                     .conditioning = {}};
    const auto activation = [&](const char* name) {
        return arena.allocate(name, MemoryCategory::kActivations, compute_,
                              {batch.num_tokens(), config_.hidden});
    };
    const Tensor d_x_TC = activation("d_x");
    const Tensor x_TC = activation("x");
    embed(queue, batch.tokens_T, x_TC);
    run_head(pass, x_TC, d_x_TC, loss_T);
    kernels::embedding_backward(
        queue, {.tokens_T = batch.tokens_T, .d_x_TC = d_x_TC, .d_table_VC = d_embedding_VC_});
}

// Forward through the blocks from `layer` on, loss, and backward through them again. Each call's
// frame holds what its block saved, and the arena pops it when the block's backward is done: a
// stack of blocks on a stack of memory.
void Transformer::train_blocks(PassContext& pass,
                               std::size_t layer,
                               std::int64_t recompute_layers,
                               ConstTensor x_TC,
                               Tensor d_x_TC,
                               Tensor loss_T) {
    if (layer == blocks_.size()) {
        run_head(pass, x_TC, d_x_TC, loss_T);
        return;
    }
    const Arena::Scope frame(pass.arena);
    Block& block = *blocks_[layer];
    const bool recomputes = static_cast<std::int64_t>(layer) < recompute_layers;
    const auto allocate_output = [&] {
        return pass.arena.allocate("x", MemoryCategory::kActivations, compute_, x_TC.shape());
    };
    Tensor y_TC;
    if (recomputes) {
        y_TC = allocate_output();
        const Arena::Scope once(pass.arena);
        block.allocate_saved(pass);
        block.forward(pass, x_TC, y_TC);
    } else {
        block.allocate_saved(pass);
        y_TC = allocate_output();
        block.forward(pass, x_TC, y_TC);
    }
    train_blocks(pass, layer + 1, recompute_layers, y_TC, d_x_TC, loss_T);
    if (recomputes) {
        block.allocate_saved(pass);
        block.forward(pass, x_TC, {});
    }
    block.backward(pass, x_TC, d_x_TC);
}

void Transformer::run_head(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC, Tensor loss_T) {
    const Arena::Scope scratch(pass.arena);
    const std::int64_t T = pass.batch.num_tokens();
    const bool layer_norm = config_.norm == config::NormKind::kLayerNorm;
    const auto statistics = [&] {
        return pass.arena.allocate("final norm", MemoryCategory::kActivations, DType::kFloat32,
                                   {T});
    };
    const Tensor inverse_T = statistics();
    const Tensor mean_T = layer_norm ? statistics() : Tensor{};
    const auto bytes = static_cast<std::int64_t>(
        kernels::head_loss_workspace_bytes(pass.queue, compute_, T, head_.N, head_.K));
    kernels::HeadLoss args{
        .input = {.kind =
                      layer_norm ? kernels::InputKind::kLayerNorm : kernels::InputKind::kRmsNorm,
                  .x = x_TC,
                  .norm_weight_K = norm_C_,
                  .norm_bias_K = norm_bias_C_,
                  .mean_T = mean_T,
                  .inverse_rms_T = inverse_T,
                  .epsilon = static_cast<float>(config_.norm_eps)},
        .weight = head_,
        .targets_T = pass.batch.targets_T,
        .weights_T = pass.batch.weights_T,
        .loss_T = loss_T,
        .d_x_TC = {},
        .d_w_VC = {},
        .d_norm_weight_C = {},
        .d_norm_bias_C = {},
        .workspace = pass.arena.allocate("head workspace", MemoryCategory::kWorkspace,
                                         DType::kUInt8, {bytes})};
    if (d_x_TC) {
        args.d_x_TC = d_x_TC;
        args.d_w_VC = d_head_VC_;
        args.d_norm_weight_C = d_norm_C_;
        args.d_norm_bias_C = d_norm_bias_C_;
    }
    kernels::head_loss(pass.queue, args);
}

void Transformer::evaluate_micro_batch(Queue& queue,
                                       Arena& arena,
                                       const MicroBatch& batch,
                                       Tensor loss_T) {
    const Arena::Scope scratch(arena);
    PassContext pass{.queue = queue,
                     .arena = arena,
                     .batch = batch,
                     .attention = local_attention_,
                     .conditioning = {}};
    const auto activation = [&] {
        return arena.allocate("x", MemoryCategory::kActivations, compute_,
                              {batch.num_tokens(), config_.hidden});
    };
    Tensor x_TC = activation();
    Tensor y_TC = activation();
    embed(queue, batch.tokens_T, x_TC);
    for (const auto& block : blocks_) {
        const Arena::Scope frame(arena);
        block->allocate_saved(pass);
        block->forward(pass, x_TC, y_TC);
        std::swap(x_TC, y_TC);
    }
    run_head(pass, x_TC, {}, loss_T);
}

std::int64_t Transformer::head_bytes(const Queue& queue, std::int64_t T) const {
    const std::int64_t statistics = config_.norm == config::NormKind::kLayerNorm ? 2 : 1;
    const auto workspace = static_cast<std::int64_t>(
        kernels::head_loss_workspace_bytes(queue, compute_, T, head_.N, head_.K));
    return statistics * Arena::padded_bytes(DType::kFloat32, {T}) +
           Arena::padded_bytes(DType::kUInt8, {workspace});
}

std::int64_t Transformer::training_bytes(const Queue& queue,
                                         const AttentionBytes& attention,
                                         std::int64_t T,
                                         std::int64_t recompute_layers) const {
    const std::int64_t x = Arena::padded_bytes(compute_, {T, config_.hidden});
    std::int64_t above = head_bytes(
        queue, T);  // the highest point above the frame of a block, from the last block down
    for (auto layer = static_cast<std::int64_t>(blocks_.size()) - 1; layer >= 0; --layer) {
        const Block& block = *blocks_[static_cast<std::size_t>(layer)];
        const std::int64_t saved = block.saved_bytes(attention, T);
        const std::int64_t scratch = std::max(block.forward_scratch_bytes(queue, attention, T),
                                              block.backward_scratch_bytes(queue, attention, T));
        above = layer < recompute_layers ? x + std::max(above, saved + scratch)
                                         : saved + x + std::max(above, scratch);
    }
    return 2 * x + above;
}

std::int64_t Transformer::evaluation_bytes(const Queue& queue, std::int64_t T) const {
    std::int64_t above = head_bytes(queue, T);
    for (const auto& block : blocks_) {
        above = std::max(above, block->saved_bytes(local_attention_, T) +
                                    block->forward_scratch_bytes(queue, local_attention_, T));
    }
    return 2 * Arena::padded_bytes(compute_, {T, config_.hidden}) + above;
}

double Transformer::training_flops(std::span<const std::int64_t> lengths) const {
    std::int64_t T = 0;
    double attention = 0;
    for (const std::int64_t length : lengths) {
        const kernels::AttentionSpan whole{.q_count = length, .k_count = length};
        T += length;
        attention += kernels::attention_flops(std::span(&whole, 1), config_.causal, config_.heads,
                                              config_.head_dim);
    }
    const std::int64_t D = config_.head_dim;
    const std::int64_t up =
        config_.activation == config::Activation::kSwiGlu ? 2 * config_.ffn : config_.ffn;
    const double block =
        kernels::linear_flops(T, (config_.heads + 2 * config_.kv_heads) * D, config_.hidden) +
        kernels::linear_flops(T, config_.hidden, config_.heads * D) +
        kernels::linear_flops(T, up, config_.hidden) +
        kernels::linear_flops(T, config_.hidden, config_.ffn) + attention;
    return 3 * (static_cast<double>(config_.layers) * block +
                kernels::linear_flops(T, config_.vocab, config_.hidden));
}

}  // namespace dcp::model
