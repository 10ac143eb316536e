#include "core/model/sequence_attention.hpp"

#include <cmath>

#include "kernels/attention.hpp"

namespace dcp::model {

namespace {

// Queries, keys and values as strided views of the fused activation.
template <class AnyTensor>
struct Heads {
    AnyTensor q_THD, k_TGD, v_TGD;

    Heads(AnyTensor qkv_TN, const AttentionShape& shape) {
        const std::int64_t T = qkv_TN.dim(0);
        const std::int64_t D = shape.head_dim;
        const std::int64_t q_features = shape.heads * D;
        const std::int64_t kv_features = shape.kv_heads * D;
        q_THD = qkv_TN.columns(0, q_features).reshaped({T, shape.heads, D});
        k_TGD = qkv_TN.columns(q_features, kv_features).reshaped({T, shape.kv_heads, D});
        v_TGD =
            qkv_TN.columns(q_features + kv_features, kv_features).reshaped({T, shape.kv_heads, D});
    }
};

kernels::AttentionSizes sizes(const AttentionShape& shape, DType dtype, std::int64_t T) {
    return {.dtype = dtype,
            .num_queries = T,
            .num_keys = T,
            .num_heads = shape.heads,
            .num_kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim};
}

Tensor workspace(Arena& arena, std::size_t bytes) {
    return arena.allocate("attention workspace", MemoryCategory::kWorkspace, DType::kUInt8,
                          {static_cast<std::int64_t>(bytes)});
}

// All that one rank keeps.
template <class AnyTensor>
AnyTensor log_sum_exp(AnyTensor state, const AttentionShape& shape, std::int64_t T) {
    return {state.data(), DType::kFloat32, Shape{shape.heads, T}};
}

float scale(const AttentionShape& shape) {
    return 1 / std::sqrt(static_cast<float>(shape.head_dim));
}

}  // namespace

void LocalAttention::forward(Queue& queue,
                             Arena& arena,
                             const MicroBatch& batch,
                             const AttentionShape& shape,
                             ConstTensor qkv_TN,
                             Tensor o_TN,
                             Tensor state) {
    const Arena::Scope scratch(arena);
    const std::int64_t T = qkv_TN.dim(0);
    const Heads<ConstTensor> in(qkv_TN, shape);
    kernels::attention_forward(
        queue, {.q_THD = in.q_THD,
                .k_TGD = in.k_TGD,
                .v_TGD = in.v_TGD,
                .o_THD = o_TN.reshaped({T, shape.heads, shape.head_dim}),
                .lse_HT = log_sum_exp(state, shape, T),
                .spans = batch.spans,
                .causal = shape.causal,
                .scale = scale(shape),
                .workspace = workspace(arena, kernels::attention_forward_workspace_bytes(
                                                  queue, sizes(shape, qkv_TN.dtype(), T)))});
}

void LocalAttention::backward(Queue& queue,
                              Arena& arena,
                              const MicroBatch& batch,
                              const AttentionShape& shape,
                              ConstTensor qkv_TN,
                              ConstTensor o_TN,
                              ConstTensor state,
                              ConstTensor d_o_TN,
                              Tensor d_qkv_TN) {
    const Arena::Scope scratch(arena);
    const std::int64_t T = qkv_TN.dim(0);
    const Shape heads{T, shape.heads, shape.head_dim};
    const Heads<ConstTensor> in(qkv_TN, shape);
    const Heads<Tensor> out(d_qkv_TN, shape);
    kernels::attention_backward(
        queue, {.q_THD = in.q_THD,
                .k_TGD = in.k_TGD,
                .v_TGD = in.v_TGD,
                .o_THD = o_TN.reshaped(heads),
                .lse_HT = log_sum_exp(state, shape, T),
                .d_o_THD = d_o_TN.reshaped(heads),
                .d_q_THD = out.q_THD,
                .d_k_TGD = out.k_TGD,
                .d_v_TGD = out.v_TGD,
                .mode = kernels::GradMode::kOverwrite,
                .spans = batch.spans,
                .causal = shape.causal,
                .scale = scale(shape),
                .workspace = workspace(arena, kernels::attention_backward_workspace_bytes(
                                                  queue, sizes(shape, qkv_TN.dtype(), T)))});
}

std::int64_t LocalAttention::state_bytes(const AttentionShape& shape,
                                         DType /*dtype*/,
                                         std::int64_t T) const {
    return Arena::padded_bytes(DType::kFloat32, {shape.heads, T});
}

std::int64_t LocalAttention::forward_scratch_bytes(const Queue& queue,
                                                   const AttentionShape& shape,
                                                   DType dtype,
                                                   std::int64_t T) const {
    const std::size_t bytes =
        kernels::attention_forward_workspace_bytes(queue, sizes(shape, dtype, T));
    return Arena::padded_bytes(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
}

std::int64_t LocalAttention::backward_scratch_bytes(const Queue& queue,
                                                    const AttentionShape& shape,
                                                    DType dtype,
                                                    std::int64_t T) const {
    const std::size_t bytes =
        kernels::attention_backward_workspace_bytes(queue, sizes(shape, dtype, T));
    return Arena::padded_bytes(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
}

}  // namespace dcp::model
