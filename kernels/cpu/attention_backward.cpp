// Backward pass with five products a block. A unit of work is a chunk of a span's keys under one
// key/value head: it goes over all queries that see the chunk, under every query head of the group,
// and keeps the gradients of its keys and values meanwhile.
//
// The gradient of a query gathers parts from all chunks of its span. They are added in ascending
// order of chunks: a unit waits until its predecessor has passed the query block. Units are claimed
// in the order of the list, where a predecessor always comes first, so some thread is working on it
// and none waits for ever; threads follow each other along a long span like a pipeline.
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <thread>

#include <omp.h>

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/attention_operands.hpp"
#include "kernels/cpu/attention_softmax.hpp"
#include "kernels/cpu/attention_units.hpp"

namespace dcp::kernels::cpu {
namespace {

// How many query blocks (of all heads, in order) a unit has added to their gradients.
struct alignas(64) Progress {
    std::atomic<std::int64_t> steps{0};

    void wait_for(std::int64_t wanted) const {
        constexpr int kSpins = 1000;
        for (int spin = 0; steps.load(std::memory_order_acquire) < wanted; spin++) {
            if (spin >= kSpins) {
                std::this_thread::yield();
            }
        }
    }
};

// Keys of a unit: keys, values and their gradients stay in the second-level cache (about 16 bytes
// an element).
int blocks_per_chunk(const BlockShape& shape) {
    constexpr int kElems = 32768;
    return std::max(1, kElems / (shape.head_dim * shape.key_block));
}

// Memory of one thread.
template <class T>
struct BackwardScratch {
    BackwardScratch(const BlockShape& shape, int head_dim, Scratch& scratch)
        : operands(shape, head_dim, scratch) {
        const std::int64_t Dp = shape.head_dim;
        const std::int64_t Q = shape.query_block;
        const std::int64_t K = shape.key_block;
        const std::int64_t chunk = K * blocks_per_chunk(shape);
        keys = scratch.take<T>(chunk * Dp);
        values = scratch.take<T>(chunk * Dp);
        keys_DK = scratch.take<T>(chunk * Dp);
        d_keys = scratch.take<float>(chunk * Dp);
        d_values = scratch.take<float>(chunk * Dp);
        queries_DQ = scratch.take<T>(Dp * Q);
        d_outputs_DQ = scratch.take<T>(Dp * Q);
        queries = scratch.take<T>(Q * Dp);
        d_outputs = scratch.take<T>(Q * Dp);
        d_queries_DQ = scratch.take<float>(Dp * Q);
        d_queries = scratch.take<float>(Dp * Q);
        lse2 = scratch.take<float>(Q);
        delta = scratch.take<float>(Q);
        scores = scratch.take<float>(K * Q);
        d_probabilities = scratch.take<float>(K * Q);
        if (sizeof(T) == sizeof(float)) {
            p_left = reinterpret_cast<T*>(scores);
            d_scores_left = reinterpret_cast<T*>(d_probabilities);
        } else {
            p_left = scratch.take<T>(K * Q);
            d_scores_left = scratch.take<T>(K * Q);
            d_scores_pairs = scratch.take<std::uint32_t>(K / 2 * Q);
        }
    }

    Operands<T> operands;
    T* keys;              // [chunk, Dp]
    T* values;            // [chunk, Dp]
    T* keys_DK;           // a block of keys: [Dp, keys]
    float* d_keys;        // [chunk, Dp]
    float* d_values;      // [chunk, Dp]
    T* queries_DQ;        // [Dp, queries] as right operand
    T* d_outputs_DQ;      // the same
    T* queries;           // [queries, Dp] as right operand
    T* d_outputs;         // the same
    float* d_queries_DQ;  // [Dp, queries]
    float* d_queries;     // [queries, Dp]
    float* lse2;          // [queries]
    float* delta;         // [queries]
    float* scores;        // [keys, queries]
    float* d_probabilities;
    T* p_left;         // [keys, queries]; fp32: the scores' memory
    T* d_scores_left;  // likewise
    std::uint32_t* d_scores_pairs = nullptr;
};

// What all units share.
struct BackwardCall {
    const AttentionBackward& args;
    const BlockProducts& products;
    std::int64_t chunk_size;
    Progress* progress;  // [slots][G]
    float* d_q_THD;      // [Tq, H, Dp]: sums over chunks, where d_q itself is not fp32
};

template <class T>
class BackwardUnit {
public:
    BackwardUnit(const BackwardCall& call, const BackwardScratch<T>& scratch)
        : call_(call),
          args_(call.args),
          products_(call.products),
          shape_(call.products.shape()),
          scratch_(scratch),
          head_dim_(static_cast<int>(args_.q_THD.dim(2))),
          kv_heads_(args_.k_TGD.dim(1)),
          heads_per_kv_(args_.q_THD.dim(1) / kv_heads_) {}

    void run(const AttentionSpan& span, std::int64_t chunk_index, std::int64_t kv_head) {
        span_ = &span;
        chunk_index_ = chunk_index;
        kv_head_ = kv_head;
        begin_ = chunk_index * call_.chunk_size;
        count_ = static_cast<int>(std::min(call_.chunk_size, span.k_count - begin_));
        pack_keys();
        const std::int64_t num_blocks =
            (span.q_count + shape_.query_block - 1) / shape_.query_block;
        for (std::int64_t i = 0; i < heads_per_kv_; i++) {
            for (std::int64_t block = 0; block < num_blocks; block++) {
                add_queries(kv_head * heads_per_kv_ + i, block * shape_.query_block,
                            i * num_blocks + block);
            }
        }
        write_keys();
    }

private:
    template <class Element = T>
    HeadRows<Element> rows(const ConstTensor& tensor, std::int64_t row, std::int64_t head) const {
        return {tensor.as<Element>() + row * tensor.row_stride() + head * tensor.dim(2),
                tensor.row_stride()};
    }

    void pack_keys() {
        if (count_ <= 0) {
            return;
        }
        const std::int64_t row = span_->k_begin + begin_;
        const HeadRows<T> k = rows(args_.k_TGD, row, kv_head_);
        const HeadRows<T> v = rows(args_.v_TGD, row, kv_head_);
        const int padded = shape_.pad(count_);
        const std::int64_t elems = std::int64_t{padded} * shape_.head_dim;
        scratch_.operands.rows_left(k, count_, padded, scratch_.keys);
        scratch_.operands.rows_left(v, count_, padded, scratch_.values);
        for (int key = 0; key < count_; key += shape_.key_block) {
            scratch_.operands.columns_left(k.from(key), std::min(shape_.key_block, count_ - key),
                                           scratch_.keys_DK + std::int64_t{key} * shape_.head_dim);
        }
        std::fill_n(scratch_.d_keys, elems, 0.0F);
        std::fill_n(scratch_.d_values, elems, 0.0F);
    }

    // One query block under one head: its share of this chunk's gradients, and this chunk's share
    // of its own. `step` counts the query blocks that the unit visits.
    void add_queries(std::int64_t head, std::int64_t query, std::int64_t step) {
        const int queries =
            static_cast<int>(std::min<std::int64_t>(shape_.query_block, span_->q_count - query));
        const std::int64_t seen = std::min<std::int64_t>(
            visible_keys(*span_, args_.causal, query + queries - 1) - begin_, count_);
        const bool is_seen = seen > 0;
        if (is_seen) {
            pack_queries(head, query, queries);
            // Queries of the block that see no key of the chunk are left out below.
            const bool all_see = visible_keys(*span_, args_.causal, query) > begin_;
            if (!all_see) {
                std::fill_n(scratch_.d_queries_DQ,
                            std::int64_t{shape_.head_dim} * shape_.query_block, 0.0F);
            }
            for (int key = 0; key < seen; key += shape_.key_block) {
                const int count = std::min(shape_.key_block, count_ - key);
                for_each_part(*span_, args_.causal, {query, queries}, {begin_ + key, count},
                              shape_.diagonal_queries, [&](int lane, int lanes, int seen_keys) {
                                  add_part(lane, {query + lane, lanes}, {begin_ + key, seen_keys},
                                           key > 0 || !all_see);
                              });
            }
        }
        if (chunk_index_ > 0) {
            progress_of(chunk_index_ - 1).wait_for(step + 1);
        }
        if (is_seen || chunk_index_ == 0) {
            add_query_gradient(head, query, queries, is_seen);
        }
        if (begin_ + count_ < span_->k_count) {
            progress_of(chunk_index_).steps.store(step + 1, std::memory_order_release);
        }
    }

    // Only chunks with a successor need a place: one for every whole chunk of keys of the call.
    Progress& progress_of(std::int64_t chunk_index) const {
        return call_
            .progress[(span_->k_begin / call_.chunk_size + chunk_index) * kv_heads_ + kv_head_];
    }

    void pack_queries(std::int64_t head, std::int64_t query, int queries) {
        const std::int64_t row = span_->q_begin + query;
        const HeadRows<T> q = rows(args_.q_THD, row, head);
        const HeadRows<T> o = rows(args_.o_THD, row, head);
        const HeadRows<T> d_o = rows(args_.d_o_THD, row, head);
        const int padded = shape_.pad(queries);
        scratch_.operands.columns_right(q, queries, padded, scratch_.queries_DQ);
        scratch_.operands.columns_right(d_o, queries, padded, scratch_.d_outputs_DQ);
        scratch_.operands.rows_right(q, queries, padded, scratch_.queries);
        scratch_.operands.rows_right(d_o, queries, padded, scratch_.d_outputs);
        row_dots(o.base, o.stride, d_o.base, d_o.stride, queries, head_dim_, scratch_.delta);
        const float* const lse = args_.lse_HT.as<float>() + head * args_.lse_HT.row_stride() + row;
        // Padding, and queries without keys: probabilities that vanish.
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        for (int i = 0; i < queries; i++) {
            scratch_.lse2[i] = lse[i] == -kInfinity ? kInfinity : lse[i] * kLog2E;
        }
        std::fill(scratch_.lse2 + queries, scratch_.lse2 + padded, kInfinity);
        std::fill(scratch_.delta + queries, scratch_.delta + padded, 0.0F);
    }

    // `queries` begin at this lane of the packed block; adds to their gradients or overwrites them.
    void add_part(int lane, const Range& queries, const Range& keys, bool add) {
        const int padded_keys = shape_.pad(keys.count);
        const int lanes = shape_.pad(queries.count);
        const std::int64_t at = (keys.begin - begin_) * shape_.head_dim;
        // As right operands, pairs have two elements a lane; rows [queries, Dp] have the same place
        // either way.
        const int lane_at = shape_.pairs ? 2 * lane : lane;
        const std::int64_t row_at = std::int64_t{lane} * shape_.head_dim;
        const BlockProduct& scores = products_.scores(padded_keys, lanes);
        scores(scratch_.keys + at, scratch_.queries_DQ + lane_at, scratch_.scores);
        scores(scratch_.values + at, scratch_.d_outputs_DQ + lane_at, scratch_.d_probabilities);
        softmax_block_backward(
            {.keys = keys.count,
             .padded_keys = padded_keys,
             .queries = lanes,
             .diagonal = args_.causal ? queries.begin + span_->q_offset - keys.begin
                                      : std::numeric_limits<std::int32_t>::max(),
             .row = shape_.query_block,
             .log2_scale = args_.scale * kLog2E},
            {scratch_.scores, scratch_.d_probabilities, scratch_.lse2 + lane,
             scratch_.delta + lane},
            BlockOperands<T>{scratch_.p_left, nullptr},
            BlockOperands<T>{scratch_.d_scores_left,
                             shape_.pairs ? scratch_.d_scores_pairs : nullptr});
        const BlockProduct& key_gradients = products_.key_gradients(padded_keys, lanes);
        key_gradients(scratch_.p_left, scratch_.d_outputs + row_at, scratch_.d_values + at);
        key_gradients(scratch_.d_scores_left, scratch_.queries + row_at, scratch_.d_keys + at);
        const void* const d_scores = shape_.pairs
                                         ? static_cast<const void*>(scratch_.d_scores_pairs)
                                         : static_cast<const void*>(scratch_.d_scores_left);
        products_.outputs(padded_keys, lanes, add)(scratch_.keys_DK + at, d_scores,
                                                   scratch_.d_queries_DQ + lane);
    }

    // The first chunk overwrites (or adds to what the caller has accumulated), later ones add. Sums
    // that cannot be kept in d_q itself are kept apart until the last chunk that the block sees.
    void add_query_gradient(std::int64_t head, std::int64_t query, int queries, bool is_seen) {
        const int Dp = shape_.head_dim;
        if (is_seen) {
            transpose_words(reinterpret_cast<const std::uint32_t*>(scratch_.d_queries_DQ),
                            shape_.query_block, Dp, shape_.pad(queries),
                            reinterpret_cast<std::uint32_t*>(scratch_.d_queries), Dp);
        } else {
            std::fill_n(scratch_.d_queries, std::int64_t{queries} * Dp, 0.0F);
        }
        const std::int64_t row = span_->q_begin + query;
        const std::int64_t visible = visible_keys(*span_, args_.causal, query + queries - 1);
        const bool is_first = chunk_index_ == 0;
        const bool is_last = begin_ + count_ >= visible;
        const bool adds_to_output = args_.mode == GradMode::kAccumulate;
        ScaledRows from{.src = scratch_.d_queries,
                        .src_stride = Dp,
                        .factor = args_.scale,
                        .rows = queries,
                        .columns = head_dim_,
                        .add = !is_first || adds_to_output};
        const std::int64_t d_q_stride = args_.d_q_THD.row_stride();
        const std::int64_t d_q_at = row * d_q_stride + head * head_dim_;
        if (args_.d_q_THD.dtype() == DType::kFloat32) {
            store_scaled(from, args_.d_q_THD.as<float>() + d_q_at, d_q_stride);
            return;
        }
        BFloat16* const d_q = args_.d_q_THD.as<BFloat16>() + d_q_at;
        if (is_first && is_last) {
            store_scaled(from, d_q, d_q_stride);
            return;
        }
        const std::int64_t sums_stride = args_.q_THD.dim(1) * Dp;
        float* const sums = call_.d_q_THD + row * sums_stride + head * Dp;
        from.add = !is_first;
        store_scaled(from, sums, sums_stride);
        if (is_last) {
            store_scaled({.src = sums,
                          .src_stride = sums_stride,
                          .rows = queries,
                          .columns = head_dim_,
                          .add = adds_to_output},
                         d_q, d_q_stride);
        }
    }

    void write_keys() const {
        if (count_ <= 0) {
            return;
        }
        write_gradient(scratch_.d_keys, args_.scale, args_.d_k_TGD);
        write_gradient(scratch_.d_values, 1, args_.d_v_TGD);
    }
    void write_gradient(const float* gradient, float factor, const Tensor& to) const {
        const ScaledRows from{.src = gradient,
                              .src_stride = shape_.head_dim,
                              .factor = factor,
                              .rows = count_,
                              .columns = head_dim_,
                              .add = args_.mode == GradMode::kAccumulate};
        const std::int64_t at = (span_->k_begin + begin_) * to.row_stride() + kv_head_ * head_dim_;
        if (to.dtype() == DType::kFloat32) {
            store_scaled(from, to.as<float>() + at, to.row_stride());
        } else {
            store_scaled(from, to.as<BFloat16>() + at, to.row_stride());
        }
    }

    const BackwardCall& call_;
    const AttentionBackward& args_;
    const BlockProducts& products_;
    const BlockShape& shape_;
    const BackwardScratch<T>& scratch_;
    int head_dim_;
    std::int64_t kv_heads_;
    std::int64_t heads_per_kv_;

    const AttentionSpan* span_ = nullptr;
    std::int64_t chunk_index_ = 0;
    std::int64_t kv_head_ = 0;
    std::int64_t begin_ = 0;  // keys [begin_, begin_ + count_) of the span
    int count_ = 0;
};

template <class T>
std::size_t scratch_bytes(const BlockShape& shape, int head_dim) {
    Scratch measure(nullptr);
    const BackwardScratch<T> scratch(shape, head_dim, measure);
    return measure.used_bytes();
}

// The workspace, in this order.
struct Layout {
    float* d_q_THD = nullptr;  // only when the operands are bf16
    Progress* progress = nullptr;
    std::int64_t num_progress = 0;
    Chunk* chunks = nullptr;
    std::byte* scratches = nullptr;
    std::size_t scratch_bytes = 0;

    Layout(const AttentionSizes& sizes, const BlockShape& shape, int threads, Scratch& workspace) {
        const std::int64_t chunk_size = std::int64_t{shape.key_block} * blocks_per_chunk(shape);
        const int head_dim = static_cast<int>(sizes.head_dim);
        if (sizes.dtype == DType::kBFloat16) {
            d_q_THD = workspace.take<float>(sizes.num_queries * sizes.num_heads * shape.head_dim);
        }
        num_progress = (sizes.num_keys / chunk_size + 1) * sizes.num_kv_heads;
        progress = workspace.take<Progress>(num_progress);
        chunks = workspace.take<Chunk>(max_chunks(sizes.num_queries, sizes.num_keys));
        scratch_bytes = sizes.dtype == DType::kFloat32
                            ? cpu::scratch_bytes<float>(shape, head_dim)
                            : cpu::scratch_bytes<BFloat16>(shape, head_dim);
        scratches = workspace.take<std::byte>(static_cast<std::int64_t>(scratch_bytes) * threads);
    }
};

template <class T>
void backward(Queue& queue, const AttentionBackward& args, const BlockProducts& products) {
    const BlockShape& shape = products.shape();
    const AttentionSizes sizes{.dtype = args.q_THD.dtype(),
                               .num_queries = args.q_THD.dim(0),
                               .num_keys = args.k_TGD.dim(0),
                               .num_heads = args.q_THD.dim(1),
                               .num_kv_heads = args.k_TGD.dim(1),
                               .head_dim = args.q_THD.dim(2)};
    Scratch workspace(Scratch::aligned(args.workspace.data()));
    const Layout layout(sizes, shape, queue.threads(), workspace);
    std::uninitialized_default_construct_n(layout.progress, layout.num_progress);
    const BackwardCall call{.args = args,
                            .products = products,
                            .chunk_size = std::int64_t{shape.key_block} * blocks_per_chunk(shape),
                            .progress = layout.progress,
                            .d_q_THD = layout.d_q_THD};
    const std::int64_t kv_heads = sizes.num_kv_heads;
    const std::int64_t num_units =
        kv_heads * list_key_chunks(args.spans, args.causal, call.chunk_size, layout.chunks);

    std::atomic<std::int64_t> next{0};
#pragma omp parallel num_threads(queue.threads())
    {
        Scratch memory(layout.scratches +
                       layout.scratch_bytes * static_cast<std::size_t>(omp_get_thread_num()));
        const BackwardScratch<T> scratch(shape, static_cast<int>(sizes.head_dim), memory);
        BackwardUnit<T> unit(call, scratch);
        for (std::int64_t i = next++; i < num_units; i = next++) {
            const Chunk& chunk = layout.chunks[i / kv_heads];
            unit.run(args.spans[static_cast<std::size_t>(chunk.span)], chunk.index, i % kv_heads);
        }
    }
}

}  // namespace

void attention_backward(Queue& queue,
                        const AttentionBackward& args,
                        const BlockProducts* products) {
    const DType dtype = args.q_THD.dtype();
    if (products == nullptr) {
        products = &block_products(best_product_kind(dtype), dtype, args.q_THD.dim(2));
    }
    if (dtype == DType::kFloat32) {
        backward<float>(queue, args, *products);
    } else {
        backward<BFloat16>(queue, args, *products);
    }
}

std::size_t attention_backward_workspace_bytes(const Queue& queue,
                                               const AttentionSizes& sizes,
                                               const BlockProducts* products) {
    Scratch workspace(nullptr);
    const BlockShape shape = products != nullptr ? products->shape()
                                                 : block_shape(best_product_kind(sizes.dtype),
                                                               sizes.dtype, sizes.head_dim);
    const Layout layout(sizes, shape, queue.threads(), workspace);
    return Scratch::with_alignment(workspace.used_bytes());
}

}  // namespace dcp::kernels::cpu
