// The Ulysses half: exchanges of heads, and what forward and backward are made of. The ring is in
// sharded_ring.cpp.
#include "core/model/sharded_attention.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/model/sharded_call.hpp"
#include "kernels/sum_rows.hpp"

namespace dcp::model {

namespace {

using kernels::AttentionSpan;

// One span a sequence: see the table in the header.
std::vector<AttentionSpan> spans_between(std::span<const PartRows> query_rows,
                                         std::span<const PartRows> key_rows,
                                         int distance,
                                         bool causal) {
    std::vector<AttentionSpan> spans;
    for (std::size_t i = 0; i < query_rows.size(); ++i) {
        const PartRows& queries = query_rows[i];
        const PartRows& keys = key_rows[i];
        AttentionSpan span{.q_begin = queries.row,
                           .q_count = queries.count(),
                           .k_begin = keys.row,
                           .k_count = keys.count()};
        if (causal && distance > 0) {
            span.k_count = keys.front_count;
        } else if (causal && distance < 0) {
            span.q_begin += queries.front_count;
            span.q_count = queries.back_count;
        }
        // Far enough that the causal mask of the kernel hides nothing.
        span.q_offset = distance == 0 ? 0 : span.k_count;
        if (span.q_count > 0 && span.k_count > 0) {
            spans.push_back(span);
        }
    }
    return spans;
}

}  // namespace

ShardedAttention::ShardedAttention(comm::Communicator& group, const StepLayout& layout)
    : group_(group),
      layout_(layout),
      ulysses_index_(group.group_rank() % layout.ulysses()),
      ring_index_(group.group_rank() / layout.ulysses()),
      send_counts_(static_cast<std::size_t>(group.group_size())),
      receive_counts_(send_counts_.size()) {
    if (group.group_size() != layout.ulysses() * layout.ring()) {
        throw ShapeError(fmt::format("a step of ulysses {} x ring {} cannot run on the {}",
                                     layout.ulysses(), layout.ring(), group.describe()));
    }
    const std::span<const PartRows> own = layout.part_rows(ring_index_);
    for (int part = 0; part < layout.ring(); ++part) {
        const std::span<const PartRows> keys = layout.part_rows(part);
        causal_spans_.push_back(spans_between(own, keys, ring_index_ - part, true));
        full_spans_.push_back(spans_between(own, keys, ring_index_ - part, false));
    }
}

void ShardedAttention::check_call(const AttentionShape& shape, std::int64_t T) const {
    if (shape.heads % layout_.ulysses() != 0) {
        throw ShapeError(fmt::format("ulysses {} does not divide {} query heads", layout_.ulysses(),
                                     shape.heads));
    }
    if (const std::int64_t held = layout_.num_tokens(group_.group_rank()); T != held) {
        throw ShapeError(
            fmt::format("the {} holds {} tokens of the step, not {}", group_.describe(), held, T));
    }
}

std::span<const AttentionSpan> ShardedAttention::spans(int key_part, bool causal) const {
    return (causal ? causal_spans_ : full_spans_)[static_cast<std::size_t>(key_part)];
}

void ShardedAttention::forward(Queue& queue,
                               Arena& arena,
                               const MicroBatch& /*batch*/,
                               const AttentionShape& shape,
                               ConstTensor qkv_TN,
                               Tensor o_TN,
                               Tensor state) {
    check_call(shape, qkv_TN.dim(0));
    Call call(queue, arena, shape, qkv_TN.dtype(), layout_, group_.group_rank());
    const State<Tensor> kept(state, call.sizes);
    if (layout_.ulysses() == 1) {
        forward_part(call, qkv_TN, o_TN, kept.lse);
        return;
    }
    send_heads(call, qkv_TN, kept.qkv);
    forward_part(call, kept.qkv, kept.o, kept.lse);
    receive_output(call, kept.o, o_TN);
}

void ShardedAttention::backward(Queue& queue,
                                Arena& arena,
                                const MicroBatch& /*batch*/,
                                const AttentionShape& shape,
                                ConstTensor qkv_TN,
                                ConstTensor o_TN,
                                ConstTensor state,
                                ConstTensor d_o_TN,
                                Tensor d_qkv_TN) {
    check_call(shape, d_o_TN.dim(0));
    Call call(queue, arena, shape, d_o_TN.dtype(), layout_, group_.group_rank());
    const State<ConstTensor> kept(state, call.sizes);
    if (layout_.ulysses() == 1) {
        backward_part(call, qkv_TN, o_TN, kept.lse, d_o_TN, d_qkv_TN);
        return;
    }
    const HeadSplit& split = call.sizes.split;
    const Arena::Scope scratch(arena);
    const Tensor d_qkv = call.allocate(MemoryCategory::kCommunication, call.sizes.dtype,
                                       call.sizes.part_tokens, split.features());
    {
        const Arena::Scope until_attended(arena);
        const Tensor d_o = call.allocate(MemoryCategory::kCommunication, call.sizes.dtype,
                                         call.sizes.part_tokens, split.q_features());
        send_output_gradient(call, d_o_TN, d_o);
        backward_part(call, kept.qkv, kept.o, kept.lse, d_o, d_qkv);
    }
    receive_gradients(call, d_qkv, d_qkv_TN);
}

void ShardedAttention::exchange_row(
    Call& call, ConstTensor send, Tensor receive, std::int64_t width, bool to_heads) {
    // Ranks of other rows have counts of 0 and hear nothing.
    const std::int64_t own = call.sizes.local_tokens;
    for (int index = 0; index < layout_.ulysses(); ++index) {
        const int peer = ring_index_ * layout_.ulysses() + index;
        const std::int64_t theirs = layout_.num_tokens(peer);
        send_counts_[static_cast<std::size_t>(peer)] = (to_heads ? own : theirs) * width;
        receive_counts_[static_cast<std::size_t>(peer)] = (to_heads ? theirs : own) * width;
    }
    group_.all_to_all(call.queue, send, send_counts_, receive, receive_counts_);
}

// One block of rows a peer: my tokens with the heads that it works on. What arrives in rank order
// are the tokens of the part in their order.
void ShardedAttention::send_heads(Call& call, ConstTensor qkv_TN, Tensor part_qkv) {
    const HeadSplit& split = call.sizes.split;
    const std::int64_t T = call.sizes.local_tokens;
    const std::int64_t D = split.head_dim;
    const std::int64_t first_key = split.all_heads * D;
    const std::int64_t first_value = first_key + split.all_kv_heads * D;
    const Arena::Scope scratch(call.arena);
    const Tensor send = call.allocate(MemoryCategory::kCommunication, call.sizes.dtype,
                                      T * layout_.ulysses(), split.features());
    for (int peer = 0; peer < layout_.ulysses(); ++peer) {
        const Tensor block = send.rows(peer * T, T);
        const auto copy = [&](std::int64_t from, std::int64_t to, std::int64_t columns) {
            kernels::copy_rows(call.queue, qkv_TN.columns(from, columns),
                               block.columns(to, columns));
        };
        copy(peer * split.q_features(), 0, split.q_features());
        const std::int64_t heads_in_a_run = split.is_replicated() ? 1 : split.kv_heads;
        for (std::int64_t index = 0; index < split.kv_heads; index += heads_in_a_run) {
            const std::int64_t head = split.kv_head(peer, index);
            const std::int64_t to = split.q_features() + index * D;
            copy(first_key + head * D, to, heads_in_a_run * D);
            copy(first_value + head * D, to + split.kv_features(), heads_in_a_run * D);
        }
    }
    exchange_row(call, send, part_qkv, split.features(), true);
}

void ShardedAttention::receive_output(Call& call, ConstTensor part_o, Tensor o_TN) {
    const std::int64_t T = call.sizes.local_tokens;
    const std::int64_t width = call.sizes.split.q_features();
    const Arena::Scope scratch(call.arena);
    const Tensor received = call.allocate(MemoryCategory::kCommunication, call.sizes.dtype,
                                          T * layout_.ulysses(), width);
    exchange_row(call, part_o, received, width, false);
    for (int peer = 0; peer < layout_.ulysses(); ++peer) {
        kernels::copy_rows(call.queue, received.rows(peer * T, T),
                           o_TN.columns(peer * width, width));
    }
}

void ShardedAttention::send_output_gradient(Call& call, ConstTensor d_o_TN, Tensor part_d_o) {
    const std::int64_t T = call.sizes.local_tokens;
    const std::int64_t width = call.sizes.split.q_features();
    const Arena::Scope scratch(call.arena);
    const Tensor send = call.allocate(MemoryCategory::kCommunication, call.sizes.dtype,
                                      T * layout_.ulysses(), width);
    for (int peer = 0; peer < layout_.ulysses(); ++peer) {
        kernels::copy_rows(call.queue, d_o_TN.columns(peer * width, width), send.rows(peer * T, T));
    }
    exchange_row(call, send, part_d_o, width, true);
}

void ShardedAttention::receive_gradients(Call& call, ConstTensor part_d_qkv, Tensor d_qkv_TN) {
    const HeadSplit& split = call.sizes.split;
    const std::int64_t T = call.sizes.local_tokens;
    const std::int64_t D = split.head_dim;
    const int u = layout_.ulysses();
    const Arena::Scope scratch(call.arena);
    const Tensor received =
        call.allocate(MemoryCategory::kCommunication, call.sizes.dtype, T * u, split.features());
    exchange_row(call, part_d_qkv, received, split.features(), false);
    for (int peer = 0; peer < u; ++peer) {
        kernels::copy_rows(call.queue, received.rows(peer * T, T).columns(0, split.q_features()),
                           d_qkv_TN.columns(peer * split.q_features(), split.q_features()));
    }
    // Keys, then values. A head that several ranks worked with is the sum of theirs.
    for (const bool is_value : {false, true}) {
        const std::int64_t from = split.q_features() + (is_value ? split.kv_features() : 0);
        const std::int64_t to = (split.all_heads + (is_value ? split.all_kv_heads : 0)) * D;
        if (!split.is_replicated()) {
            for (int peer = 0; peer < u; ++peer) {
                kernels::copy_rows(
                    call.queue, received.rows(peer * T, T).columns(from, split.kv_features()),
                    d_qkv_TN.columns(to + peer * split.kv_features(), split.kv_features()));
            }
            continue;
        }
        for (std::int64_t head = 0; head < split.all_kv_heads; ++head) {
            terms_.clear();
            for (int peer = 0; peer < u; ++peer) {
                for (std::int64_t index = 0; index < split.kv_heads; ++index) {
                    if (split.kv_head(peer, index) == head) {
                        terms_.push_back(received.rows(peer * T, T).columns(from + index * D, D));
                    }
                }
            }
            kernels::sum_rows(call.queue,
                              {.from = terms_, .to = d_qkv_TN.columns(to + head * D, D)});
        }
    }
}

}  // namespace dcp::model
