// Inside of ShardedAttention: the sizes of one call, the tensors that it keeps, and the byte counts
// that follow from both.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/arena.hpp"
#include "core/model/head_split.hpp"
#include "core/model/sharded_attention.hpp"

namespace dcp::model {

struct ShardedSizes {
    HeadSplit split;
    DType dtype;
    int ulysses;
    int ring;
    std::int64_t local_tokens;    // of this rank
    std::int64_t part_tokens;     // of its ring part
    std::int64_t largest_tokens;  // of the largest part

    kernels::AttentionSizes attention(std::int64_t key_tokens) const {
        return {.dtype = dtype,
                .num_queries = part_tokens,
                .num_keys = key_tokens,
                .num_heads = split.heads,
                .num_kv_heads = split.kv_heads,
                .head_dim = split.head_dim};
    }
    std::int64_t state_bytes() const;
    std::int64_t forward_workspace_bytes(const Queue& queue) const;
    std::int64_t backward_workspace_bytes(const Queue& queue) const;
    std::int64_t forward_bytes(const Queue& queue) const;
    std::int64_t backward_bytes(const Queue& queue) const;
};

// log-sum-exp [h, T of the part]; with Ulysses before it q, k, v and o as they were exchanged.
template <class AnyTensor>
struct State {
    AnyTensor qkv, o, lse;

    State(const AnyTensor& bytes, const ShardedSizes& sizes) {
        std::int64_t used = 0;
        const auto take = [&](DType dtype, const Shape& shape) {
            const std::int64_t begin = used;
            used += Arena::padded_bytes(dtype, shape);
            return AnyTensor(bytes.rows(begin, used - begin).data(), dtype, shape);
        };
        if (sizes.ulysses > 1) {
            qkv = take(sizes.dtype, {sizes.part_tokens, sizes.split.features()});
            o = take(sizes.dtype, {sizes.part_tokens, sizes.split.q_features()});
        }
        lse = take(DType::kFloat32, {sizes.split.heads, sizes.part_tokens});
    }
};

struct ShardedAttention::Call {
    Call(Queue& the_queue,
         Arena& the_arena,
         const AttentionShape& shape,
         DType dtype,
         const StepLayout& layout,
         int group_rank);

    Tensor allocate(MemoryCategory category,
                    DType element,
                    std::int64_t rows,
                    std::int64_t columns) const;
    Tensor allocate_block(DType element) const;  // room for keys and values of any part
    Tensor workspace(std::int64_t bytes) const;

    Queue& queue;
    Arena& arena;
    ShardedSizes sizes;
    bool causal;
    float scale;
};

}  // namespace dcp::model
