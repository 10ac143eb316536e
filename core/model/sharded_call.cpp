#include "core/model/sharded_call.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/attention.hpp"

namespace dcp::model {

namespace {

std::int64_t padded(DType dtype, std::int64_t rows, std::int64_t columns) {
    return Arena::padded_bytes(dtype, {rows, columns});
}

ShardedSizes sizes_of(const AttentionShape& shape,
                      DType dtype,
                      const StepLayout& layout,
                      int group_rank) {
    return {.split = HeadSplit(shape, layout.ulysses()),
            .dtype = dtype,
            .ulysses = layout.ulysses(),
            .ring = layout.ring(),
            .local_tokens = layout.num_tokens(group_rank),
            .part_tokens = layout.part_tokens(group_rank / layout.ulysses()),
            .largest_tokens = layout.largest_part_tokens()};
}

ShardedSizes largest_sizes(
    const AttentionShape& shape, DType dtype, std::int64_t local_tokens, int u, int r) {
    return {.split = HeadSplit(shape, u),
            .dtype = dtype,
            .ulysses = u,
            .ring = r,
            .local_tokens = local_tokens,
            .part_tokens = local_tokens * u,
            .largest_tokens = local_tokens * u};
}

}  // namespace

std::int64_t ShardedSizes::state_bytes() const {
    const std::int64_t exchanged = padded(dtype, part_tokens, split.features()) +
                                   padded(dtype, part_tokens, split.q_features());
    return (ulysses > 1 ? exchanged : 0) + padded(DType::kFloat32, split.heads, part_tokens);
}

std::int64_t ShardedSizes::forward_workspace_bytes(const Queue& queue) const {
    return static_cast<std::int64_t>(
        std::max(kernels::attention_forward_workspace_bytes(queue, attention(part_tokens)),
                 kernels::attention_forward_workspace_bytes(queue, attention(largest_tokens))));
}

std::int64_t ShardedSizes::backward_workspace_bytes(const Queue& queue) const {
    return static_cast<std::int64_t>(
        std::max(kernels::attention_backward_workspace_bytes(queue, attention(part_tokens)),
                 kernels::attention_backward_workspace_bytes(queue, attention(largest_tokens))));
}

std::int64_t ShardedSizes::forward_bytes(const Queue& queue) const {
    std::int64_t part = padded(DType::kUInt8, 1, forward_workspace_bytes(queue));
    if (ring > 1) {
        part += 2 * padded(dtype, largest_tokens, 2 * split.kv_features()) +
                padded(dtype, part_tokens, split.q_features()) +
                padded(DType::kFloat32, split.heads, part_tokens);
        part +=
            dtype == DType::kFloat32 ? 0 : padded(DType::kFloat32, part_tokens, split.q_features());
    }
    const std::int64_t send = padded(dtype, ulysses * local_tokens, split.features());
    return ulysses > 1 ? std::max(send, part) : part;  // o comes back in less than q, k, v took
}

std::int64_t ShardedSizes::backward_bytes(const Queue& queue) const {
    std::int64_t part = padded(DType::kUInt8, 1, backward_workspace_bytes(queue));
    if (ring > 1) {
        const int travelling = ring > 2 ? 3 : 2;
        part += 2 * padded(dtype, largest_tokens, 2 * split.kv_features()) +
                travelling * padded(DType::kFloat32, largest_tokens, 2 * split.kv_features());
        part +=
            dtype == DType::kFloat32 ? 0 : padded(DType::kFloat32, part_tokens, split.features());
    }
    if (ulysses == 1) {
        return part;
    }
    const std::int64_t d_qkv = padded(dtype, part_tokens, split.features());
    const std::int64_t d_o = padded(dtype, part_tokens, split.q_features());
    const std::int64_t send = padded(dtype, ulysses * local_tokens, split.q_features());
    const std::int64_t receive = padded(dtype, ulysses * local_tokens, split.features());
    return d_qkv + std::max(d_o + std::max(send, part), receive);
}

ShardedAttention::Call::Call(Queue& the_queue,
                             Arena& the_arena,
                             const AttentionShape& shape,
                             DType dtype,
                             const StepLayout& layout,
                             int group_rank)
    : queue(the_queue),
      arena(the_arena),
      sizes(sizes_of(shape, dtype, layout, group_rank)),
      causal(shape.causal),
      scale(1 / std::sqrt(static_cast<float>(shape.head_dim))) {}

Tensor ShardedAttention::Call::allocate(MemoryCategory category,
                                        DType element,
                                        std::int64_t rows,
                                        std::int64_t columns) const {
    return arena.allocate("sharded attention", category, element, {rows, columns});
}

Tensor ShardedAttention::Call::allocate_block(DType element) const {
    return allocate(MemoryCategory::kCommunication, element, sizes.largest_tokens,
                    2 * sizes.split.kv_features());
}

Tensor ShardedAttention::Call::workspace(std::int64_t bytes) const {
    return arena.allocate("attention workspace", MemoryCategory::kWorkspace, DType::kUInt8,
                          {bytes});
}

std::int64_t ShardedAttention::state_bytes(const AttentionShape& shape,
                                           DType dtype,
                                           std::int64_t T) const {
    check_call(shape, T);
    return sizes_of(shape, dtype, layout_, group_.group_rank()).state_bytes();
}

std::int64_t ShardedAttention::forward_scratch_bytes(const Queue& queue,
                                                     const AttentionShape& shape,
                                                     DType dtype,
                                                     std::int64_t T) const {
    check_call(shape, T);
    return sizes_of(shape, dtype, layout_, group_.group_rank()).forward_bytes(queue);
}

std::int64_t ShardedAttention::backward_scratch_bytes(const Queue& queue,
                                                      const AttentionShape& shape,
                                                      DType dtype,
                                                      std::int64_t T) const {
    check_call(shape, T);
    return sizes_of(shape, dtype, layout_, group_.group_rank()).backward_bytes(queue);
}

std::int64_t LargestShard::state_bytes(const AttentionShape& shape,
                                       DType dtype,
                                       std::int64_t T) const {
    return largest_sizes(shape, dtype, T, ulysses_, ring_).state_bytes();
}

std::int64_t LargestShard::forward_scratch_bytes(const Queue& queue,
                                                 const AttentionShape& shape,
                                                 DType dtype,
                                                 std::int64_t T) const {
    return largest_sizes(shape, dtype, T, ulysses_, ring_).forward_bytes(queue);
}

std::int64_t LargestShard::backward_scratch_bytes(const Queue& queue,
                                                  const AttentionShape& shape,
                                                  DType dtype,
                                                  std::int64_t T) const {
    return largest_sizes(shape, dtype, T, ulysses_, ring_).backward_bytes(queue);
}

}  // namespace dcp::model
