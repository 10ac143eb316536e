// Forward pass. A unit of work is a chunk of a span's queries under all query heads that share one
// key/value head: it goes over the keys once, a block at a time, and keeps the outputs of all its
// query blocks meanwhile. A thread works on one unit alone, so no result depends on their number.
#include <algorithm>
#include <atomic>
#include <limits>

#include <omp.h>

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/attention_operands.hpp"
#include "kernels/cpu/attention_softmax.hpp"
#include "kernels/cpu/attention_units.hpp"

namespace dcp::kernels::cpu {
namespace {

// Query blocks that a unit holds at once: the packed keys and values of one block are used that
// often, and outputs of that many stay in the second-level cache.
constexpr int kBlocksPerUnit = 8;

struct ForwardShape {
    int heads_per_kv;  // H / G
    int blocks;        // query blocks of one head in a unit

    ForwardShape(std::int64_t num_heads, std::int64_t num_kv_heads)
        : heads_per_kv(static_cast<int>(num_heads / num_kv_heads)),
          blocks(std::max(1, kBlocksPerUnit / heads_per_kv)) {}
};

// Memory of one thread.
template <class T>
struct ForwardScratch {
    ForwardScratch(const BlockShape& shape, int head_dim, int num_blocks, Scratch& scratch)
        : operands(shape, head_dim, scratch) {
        const std::int64_t Dp = shape.head_dim;
        const std::int64_t Q = shape.query_block;
        const std::int64_t K = shape.key_block;
        queries = scratch.take<T>(num_blocks * Dp * Q);
        outputs = scratch.take<float>(num_blocks * Dp * Q);
        reference = scratch.take<float>(num_blocks * Q);
        sum = scratch.take<float>(num_blocks * Q);
        keys = scratch.take<T>(K * Dp);
        values = scratch.take<T>(Dp * K);
        scores = scratch.take<float>(std::max(K, Dp) * Q);
        // fp32 probabilities replace their scores.
        probabilities =
            sizeof(T) == sizeof(float) ? reinterpret_cast<T*>(scores) : scratch.take<T>(K * Q);
        rescale = scratch.take<float>(Q);
        lse = scratch.take<float>(Q);
    }

    Operands<T> operands;
    T* queries;        // a block: [Dp, queries] as right operand
    float* outputs;    // a block: [Dp, queries]
    float* reference;  // a block: [queries]
    float* sum;        // a block: [queries]
    T* keys;           // [keys, Dp]
    T* values;         // [Dp, keys]
    float* scores;     // [keys, queries]; at the end [queries, Dp]
    T* probabilities;  // [keys, queries] as right operand
    float* rescale;    // [queries]
    float* lse;        // [queries]
};

template <class T>
class ForwardUnit {
public:
    ForwardUnit(const AttentionForward& args,
                const BlockProducts& products,
                const ForwardShape& forward_shape,
                const ForwardScratch<T>& scratch)
        : args_(args),
          products_(products),
          shape_(products.shape()),
          forward_shape_(forward_shape),
          scratch_(scratch),
          head_dim_(static_cast<int>(args.q_THD.dim(2))) {}

    void run(const AttentionSpan& span, std::int64_t chunk_index, std::int64_t kv_head) {
        span_ = &span;
        kv_head_ = kv_head;
        const std::int64_t chunk = std::int64_t{forward_shape_.blocks} * shape_.query_block;
        begin_ = chunk_index * chunk;
        end_ = std::min(begin_ + chunk, span.q_count);
        num_blocks_ =
            static_cast<int>((end_ - begin_ + shape_.query_block - 1) / shape_.query_block);
        for_each_block([this](int block, std::int64_t head, std::int64_t query, int queries) {
            scratch_.operands.columns_right(rows(args_.q_THD, span_->q_begin + query, head),
                                            queries, shape_.pad(queries), queries_of(block));
        });
        const std::int64_t keys_end = visible_keys(span, args_.causal, end_ - 1);
        for (std::int64_t key = 0; key < keys_end; key += shape_.key_block) {
            add_keys(key,
                     static_cast<int>(std::min<std::int64_t>(keys_end - key, shape_.key_block)));
        }
        for_each_block([this](int block, std::int64_t head, std::int64_t query, int queries) {
            write(block, head, query, queries);
        });
    }

private:
    // body(block, query head, first query in the span, number of queries)
    template <class Body>
    void for_each_block(const Body& body) {
        int block = 0;
        for (int i = 0; i < forward_shape_.heads_per_kv; i++) {
            const std::int64_t head = kv_head_ * forward_shape_.heads_per_kv + i;
            for (int j = 0; j < num_blocks_; j++, block++) {
                const std::int64_t query = begin_ + std::int64_t{j} * shape_.query_block;
                body(block, head, query,
                     static_cast<int>(std::min<std::int64_t>(shape_.query_block, end_ - query)));
            }
        }
    }

    HeadRows<T> rows(const ConstTensor& tensor, std::int64_t row, std::int64_t head) const {
        return {tensor.as<T>() + row * tensor.row_stride() + head * tensor.dim(2),
                tensor.row_stride()};
    }
    std::int64_t block_elems() const { return std::int64_t{shape_.head_dim} * shape_.query_block; }
    T* queries_of(int block) const { return scratch_.queries + block * block_elems(); }
    float* outputs_of(int block) const { return scratch_.outputs + block * block_elems(); }
    SoftmaxState state_of(int block) const {
        return {scratch_.reference + block * shape_.query_block,
                scratch_.sum + block * shape_.query_block};
    }

    // Softmax and output of every query block over the keys [key, key + count) of the span.
    void add_keys(std::int64_t key, int count) {
        const HeadRows<T> k = rows(args_.k_TGD, span_->k_begin + key, kv_head_);
        const HeadRows<T> v = rows(args_.v_TGD, span_->k_begin + key, kv_head_);
        scratch_.operands.rows_left(k, count, shape_.pad(count), scratch_.keys);
        scratch_.operands.columns_left(v, count, scratch_.values);
        for_each_block([&](int block, std::int64_t, std::int64_t query, int queries) {
            for_each_part(*span_, args_.causal, {query, queries}, {key, count},
                          shape_.diagonal_queries, [&](int lane, int lanes, int seen) {
                              add_part(block, lane, {query + lane, lanes}, {key, seen});
                          });
        });
    }

    // `queries` begin at this lane of the block.
    void add_part(int block, int lane, const Range& queries, const Range& keys) {
        const int padded_keys = shape_.pad(keys.count);
        const int lanes = shape_.pad(queries.count);
        // Operands of pairs have two elements a lane.
        T* const q = queries_of(block) + (shape_.pairs ? 2 * lane : lane);
        float* const outputs = outputs_of(block) + lane;
        const SoftmaxState state{state_of(block).reference + lane, state_of(block).sum + lane};
        products_.scores(padded_keys, lanes)(scratch_.keys, q, scratch_.scores);
        const ScoreBlock scores{.keys = keys.count,
                                .padded_keys = padded_keys,
                                .queries = lanes,
                                .diagonal = args_.causal
                                                ? queries.begin + span_->q_offset - keys.begin
                                                : std::numeric_limits<std::int32_t>::max(),
                                .row = shape_.query_block,
                                .log2_scale = args_.scale * kLog2E};
        const bool is_first = keys.begin == 0;
        const bool moved = softmax_block(scores, scratch_.scores, is_first, state, scratch_.rescale,
                                         probabilities());
        if (moved) {
            scale_lanes(outputs, shape_.head_dim, shape_.query_block, lanes, scratch_.rescale);
        }
        products_.outputs(padded_keys, lanes, !is_first)(scratch_.values, scratch_.probabilities,
                                                         outputs);
    }

    BlockOperands<T> probabilities() const {
        if (sizeof(T) == 2 && shape_.pairs) {
            return {nullptr, reinterpret_cast<std::uint32_t*>(scratch_.probabilities)};
        }
        return {scratch_.probabilities, nullptr};
    }

    // Outputs and lse of a finished block. The first `blind` queries see no key.
    void write(int block, std::int64_t head, std::int64_t query, int queries) {
        std::int64_t first_seeing = span_->k_count > 0 ? 0 : span_->q_count;
        if (args_.causal && span_->k_count > 0) {
            first_seeing = std::clamp<std::int64_t>(-span_->q_offset, 0, span_->q_count);
        }
        const int blind =
            static_cast<int>(std::clamp<std::int64_t>(first_seeing - query, 0, queries));
        const std::int64_t row = span_->q_begin + query;
        T* const o = args_.o_THD.as<T>() + row * args_.o_THD.row_stride() + head * head_dim_;
        float* const lse = args_.lse_HT.as<float>() + head * args_.lse_HT.row_stride() + row;
        for (int i = 0; i < blind; i++) {
            std::fill_n(o + i * args_.o_THD.row_stride(), head_dim_, T{});
            lse[i] = -std::numeric_limits<float>::infinity();
        }
        if (blind == queries) {
            return;
        }
        finish_softmax(state_of(block), shape_.pad(queries), scratch_.rescale, scratch_.lse);
        std::copy(scratch_.lse + blind, scratch_.lse + queries, lse + blind);
        const int Dp = shape_.head_dim;
        transpose_words(reinterpret_cast<const std::uint32_t*>(outputs_of(block)),
                        shape_.query_block, Dp, shape_.pad(queries),
                        reinterpret_cast<std::uint32_t*>(scratch_.scores), Dp);
        store_scaled({.src = scratch_.scores + std::int64_t{blind} * Dp,
                      .src_stride = Dp,
                      .row_factor = scratch_.rescale + blind,
                      .rows = queries - blind,
                      .columns = head_dim_,
                      .add = false},
                     o + blind * args_.o_THD.row_stride(), args_.o_THD.row_stride());
    }

    const AttentionForward& args_;
    const BlockProducts& products_;
    const BlockShape& shape_;
    const ForwardShape& forward_shape_;
    const ForwardScratch<T>& scratch_;
    int head_dim_;

    const AttentionSpan* span_ = nullptr;
    std::int64_t kv_head_ = 0;
    std::int64_t begin_ = 0;
    std::int64_t end_ = 0;
    int num_blocks_ = 0;
};

template <class T>
std::size_t scratch_bytes(const BlockShape& shape, int head_dim, const ForwardShape& forward) {
    Scratch measure(nullptr);
    const ForwardScratch<T> scratch(shape, head_dim, forward.blocks * forward.heads_per_kv,
                                    measure);
    return measure.used_bytes();
}

template <class T>
void forward(Queue& queue, const AttentionForward& args, const BlockProducts& products) {
    const ForwardShape forward_shape(args.q_THD.dim(1), args.k_TGD.dim(1));
    const BlockShape& shape = products.shape();
    const int head_dim = static_cast<int>(args.q_THD.dim(2));
    const std::int64_t kv_heads = args.k_TGD.dim(1);

    Scratch workspace(Scratch::aligned(args.workspace.data()));
    Chunk* const chunks = workspace.take<Chunk>(max_chunks(args.q_THD.dim(0), 0));
    const std::int64_t num_units =
        kv_heads * list_query_chunks(args.spans, args.causal,
                                     std::int64_t{forward_shape.blocks} * shape.query_block,
                                     chunks);
    const std::size_t bytes = scratch_bytes<T>(shape, head_dim, forward_shape);
    std::byte* const scratches =
        workspace.take<std::byte>(static_cast<std::int64_t>(bytes) * queue.threads());

    std::atomic<std::int64_t> next{0};
#pragma omp parallel num_threads(queue.threads())
    {
        Scratch memory(scratches + bytes * static_cast<std::size_t>(omp_get_thread_num()));
        const ForwardScratch<T> scratch(shape, head_dim,
                                        forward_shape.blocks * forward_shape.heads_per_kv, memory);
        ForwardUnit<T> unit(args, products, forward_shape, scratch);
        for (std::int64_t i = next++; i < num_units; i = next++) {
            const Chunk& chunk = chunks[i / kv_heads];
            unit.run(args.spans[static_cast<std::size_t>(chunk.span)], chunk.index, i % kv_heads);
        }
    }
}

}  // namespace

void attention_forward(Queue& queue, const AttentionForward& args, const BlockProducts* products) {
    const DType dtype = args.q_THD.dtype();
    if (products == nullptr) {
        products = &block_products(best_product_kind(dtype), dtype, args.q_THD.dim(2));
    }
    if (dtype == DType::kFloat32) {
        forward<float>(queue, args, *products);
    } else {
        forward<BFloat16>(queue, args, *products);
    }
}

std::size_t attention_forward_workspace_bytes(const Queue& queue,
                                              const AttentionSizes& sizes,
                                              const BlockProducts* products) {
    const ForwardShape forward_shape(sizes.num_heads, sizes.num_kv_heads);
    const BlockShape shape = products != nullptr ? products->shape()
                                                 : block_shape(best_product_kind(sizes.dtype),
                                                               sizes.dtype, sizes.head_dim);
    const int head_dim = static_cast<int>(sizes.head_dim);
    const std::size_t bytes = sizes.dtype == DType::kFloat32
                                  ? scratch_bytes<float>(shape, head_dim, forward_shape)
                                  : scratch_bytes<BFloat16>(shape, head_dim, forward_shape);
    Scratch workspace(nullptr);
    workspace.take<Chunk>(max_chunks(sizes.num_queries, 0));
    workspace.take<std::byte>(static_cast<std::int64_t>(bytes) * queue.threads());
    return Scratch::with_alignment(workspace.used_bytes());
}

}  // namespace dcp::kernels::cpu
