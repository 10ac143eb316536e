// The ring half of ShardedAttention: attention of the tokens of this part, with the heads of this
// rank, to the keys of all parts.
#include <array>

#include "core/model/sharded_attention.hpp"
#include "core/model/sharded_call.hpp"
#include "kernels/attention.hpp"
#include "kernels/attention_merge.hpp"
#include "kernels/sum_rows.hpp"

namespace dcp::model {

namespace {

// Keys and values side by side: columns of one block.
template <class AnyTensor>
struct KeyValue {
    AnyTensor k_TGD, v_TGD;

    KeyValue(const AnyTensor& block, const HeadSplit& split)
        : k_TGD(head_columns(block, 0, split.kv_heads, split.head_dim)),
          v_TGD(head_columns(block, split.kv_features(), split.kv_heads, split.head_dim)) {}
};

template <class AnyTensor>
AnyTensor key_value_columns(const AnyTensor& qkv, const HeadSplit& split) {
    return qkv.columns(split.q_features(), 2 * split.kv_features());
}

template <class AnyTensor>
AnyTensor query_columns(const AnyTensor& qkv, const HeadSplit& split) {
    return head_columns(qkv, 0, split.heads, split.head_dim);
}

// The same memory for the block of one part after another.
Tensor first_rows(const Tensor& buffer, std::int64_t rows) {
    return buffer.rows(0, rows);
}

}  // namespace

int ShardedAttention::part_at(int step) const {
    return (ring_index_ - step + layout_.ring()) % layout_.ring();
}

comm::Pending ShardedAttention::pass_on(Call& call,
                                        const Tensor& block,
                                        int step,
                                        const Tensor& buffer) {
    const int u = layout_.ulysses();
    const int r = layout_.ring();
    return group_.exchange(call.queue,
                           {.send = first_rows(block, layout_.part_tokens(part_at(step))),
                            .to = (ring_index_ + 1) % r * u + ulysses_index_,
                            .receive = first_rows(buffer, layout_.part_tokens(part_at(step + 1))),
                            .from = (ring_index_ + r - 1) % r * u + ulysses_index_});
}

void ShardedAttention::forward_part(Call& call, ConstTensor qkv, Tensor o, Tensor lse) {
    const Arena::Scope scratch(call.arena);
    const HeadSplit& split = call.sizes.split;
    const Tensor workspace = call.workspace(call.sizes.forward_workspace_bytes(call.queue));
    const auto by_head = [&](const Tensor& rows) {
        return rows.reshaped({rows.dim(0), split.heads, split.head_dim});
    };
    const auto attend = [&](int part, const ConstTensor& kv, const Tensor& to, const Tensor& sum) {
        const KeyValue<ConstTensor> keys(kv, split);
        kernels::attention_forward(call.queue, {.q_THD = query_columns(qkv, split),
                                                .k_TGD = keys.k_TGD,
                                                .v_TGD = keys.v_TGD,
                                                .o_THD = by_head(to),
                                                .lse_HT = sum,
                                                .spans = spans(part, call.causal),
                                                .causal = call.causal,
                                                .scale = call.scale,
                                                .workspace = workspace});
    };
    const ConstTensor own_kv = key_value_columns(qkv, split);
    const int r = layout_.ring();
    if (r == 1) {
        attend(0, own_kv, o, lse);
        return;
    }
    const std::int64_t T = call.sizes.part_tokens;
    const bool is_fp32 = call.sizes.dtype == DType::kFloat32;
    const Tensor o_sum =
        is_fp32 ? o
                : call.allocate(MemoryCategory::kWorkspace, DType::kFloat32, T, split.q_features());
    const Tensor o_step =
        call.allocate(MemoryCategory::kWorkspace, call.sizes.dtype, T, split.q_features());
    const Tensor lse_step =
        call.allocate(MemoryCategory::kWorkspace, DType::kFloat32, split.heads, T);
    const std::array blocks = {call.allocate_block(call.sizes.dtype),
                               call.allocate_block(call.sizes.dtype)};
    kernels::copy_rows(call.queue, own_kv, first_rows(blocks[0], T));
    comm::Pending next = pass_on(call, blocks[0], 0, blocks[1]);
    attend(ring_index_, own_kv, o, lse);  // every query sees itself: no row is left out
    if (!is_fp32) {
        kernels::copy_rows(call.queue, o, o_sum);
    }
    for (int step = 1; step < r; ++step) {
        next.wait(call.queue);
        const int part = part_at(step);
        const Tensor& block = blocks[static_cast<std::size_t>(step % 2)];
        if (step + 1 < r) {
            next = pass_on(call, block, step, blocks[static_cast<std::size_t>((step + 1) % 2)]);
        }
        if (spans(part, call.causal).empty()) {
            continue;
        }
        attend(part, first_rows(block, layout_.part_tokens(part)), o_step, lse_step);
        kernels::attention_merge(call.queue, {.o_THD = by_head(o_step),
                                              .lse_HT = lse_step,
                                              .o_sum_THD = by_head(o_sum),
                                              .lse_sum_HT = lse,
                                              .spans = spans(part, call.causal)});
    }
    if (!is_fp32) {
        kernels::copy_rows(call.queue, o_sum, o);
    }
}

void ShardedAttention::backward_part(
    Call& call, ConstTensor qkv, ConstTensor o, ConstTensor lse, ConstTensor d_o, Tensor d_qkv) {
    const Arena::Scope scratch(call.arena);
    const HeadSplit& split = call.sizes.split;
    const std::int64_t T = call.sizes.part_tokens;
    const int r = layout_.ring();
    const Tensor workspace = call.workspace(call.sizes.backward_workspace_bytes(call.queue));
    const bool rounds_at_end = r > 1 && call.sizes.dtype != DType::kFloat32;
    const Tensor d_sum = rounds_at_end ? call.allocate(MemoryCategory::kWorkspace, DType::kFloat32,
                                                       T, split.features())
                                       : d_qkv;
    const Shape by_head{T, split.heads, split.head_dim};
    const auto attend = [&](int part, const ConstTensor& kv, const Tensor& d_kv,
                            kernels::GradMode mode) {
        const KeyValue<ConstTensor> keys(kv, split);
        const KeyValue<Tensor> gradients(d_kv, split);
        kernels::attention_backward(call.queue, {.q_THD = query_columns(qkv, split),
                                                 .k_TGD = keys.k_TGD,
                                                 .v_TGD = keys.v_TGD,
                                                 .o_THD = o.reshaped(by_head),
                                                 .lse_HT = lse,
                                                 .d_o_THD = d_o.reshaped(by_head),
                                                 .d_q_THD = query_columns(d_sum, split),
                                                 .d_k_TGD = gradients.k_TGD,
                                                 .d_v_TGD = gradients.v_TGD,
                                                 .mode = mode,
                                                 .spans = spans(part, call.causal),
                                                 .causal = call.causal,
                                                 .scale = call.scale,
                                                 .workspace = workspace});
    };
    const ConstTensor own_kv = key_value_columns(qkv, split);
    const Tensor own_d_kv = key_value_columns(d_sum, split);
    if (r == 1) {
        attend(0, own_kv, own_d_kv, kernels::GradMode::kOverwrite);
        return;
    }
    const std::array blocks = {call.allocate_block(call.sizes.dtype),
                               call.allocate_block(call.sizes.dtype)};
    kernels::copy_rows(call.queue, own_kv, first_rows(blocks[0], T));
    comm::Pending next = pass_on(call, blocks[0], 0, blocks[1]);
    attend(ring_index_, own_kv, own_d_kv, kernels::GradMode::kOverwrite);

    // A block's gradient starts at the rank after its own and collects there what each rank adds.
    const std::array sums = {call.allocate_block(DType::kFloat32),
                             call.allocate_block(DType::kFloat32)};
    const Tensor term = r > 2 ? call.allocate_block(DType::kFloat32) : Tensor();
    comm::Pending gradient;
    for (int step = 1; step < r; ++step) {
        next.wait(call.queue);
        const int part = part_at(step);
        const std::int64_t rows = layout_.part_tokens(part);
        const Tensor& block = blocks[static_cast<std::size_t>(step % 2)];
        if (step + 1 < r) {
            next = pass_on(call, block, step, blocks[static_cast<std::size_t>((step + 1) % 2)]);
        }
        const Tensor sum = first_rows(sums[static_cast<std::size_t>(step % 2)], rows);
        const Tensor d_kv = step == 1 ? sum : first_rows(term, rows);
        const bool adds = !spans(part, call.causal).empty();
        if (adds || step == 1) {
            kernels::sum_rows(call.queue, {.from = {}, .to = d_kv});
        }
        if (adds) {
            attend(part, first_rows(block, rows), d_kv, kernels::GradMode::kAccumulate);
        }
        if (step > 1) {
            gradient.wait(call.queue);
            if (adds) {
                const std::array<ConstTensor, 2> terms = {sum, d_kv};
                kernels::sum_rows(call.queue, {.from = terms, .to = sum});
            }
        }
        gradient = pass_on(call, sum, step, sums[static_cast<std::size_t>((step + 1) % 2)]);
    }
    gradient.wait(call.queue);
    const std::array<ConstTensor, 2> terms = {own_d_kv,
                                              first_rows(sums[static_cast<std::size_t>(r % 2)], T)};
    kernels::sum_rows(call.queue, {.from = terms, .to = key_value_columns(d_qkv, split)});
    if (rounds_at_end) {
        kernels::copy_rows(call.queue, d_sum.columns(0, split.q_features()),
                           d_qkv.columns(0, split.q_features()));
    }
}

}  // namespace dcp::model
