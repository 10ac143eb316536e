// Softmax attention over packed sequences, blocked: no T x T matrix exists, and no query sees a key
// of another sequence (Dao et al. 2022, arXiv 2205.14135; online softmax of Milakov & Gimelshein
// 2018, arXiv 1805.02867).
//
//     s[i,j] = scale * q[i] . k[j]      over the keys j that query i sees      lse[i] = log(sum
//     over j of exp(s[i,j])) o[i]   = sum over j of exp(s[i,j] - lse[i]) * v[j]
//
// Backward, with p = exp(s - lse) and delta[i] = d_o[i] . o[i]:
//
//     d_v[j] = sum over i of p[i,j] d_o[i]        ds[i,j] = p[i,j] * (d_o[i] . v[j] - delta[i])
//     d_q[i] = scale * sum over j of ds[i,j] k[j]        d_k[j] = scale * sum over i of ds[i,j]
//     q[i]
//
// H query heads share G key/value heads: query head h uses key/value head h / (H / G). A span is
// one sequence, or the part of one that lies here when ranks share it: with `causal`, query i
// (0-based in the span) sees keys j <= i + q_offset; so q_offset is 0 for a whole sequence, and
// (first query position - first key position) for a shard. A query that sees no key gets o = 0 and
// lse = -infinity, which is the neutral element of merging partial results over shards.
//
// q, k, v, o, d_o share one type (fp32 or bf16) and may be strided views of one fused activation;
// lse is fp32; d_q, d_k, d_v are of that type or fp32. Sums run in a fixed order for any number of
// threads. Work is split by cost, so one long sequence keeps all threads busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels {

struct AttentionSpan {
    std::int64_t q_begin = 0;  // first row in q, o, lse, d_o, d_q
    std::int64_t q_count = 0;
    std::int64_t k_begin = 0;  // first row in k, v, d_k, d_v
    std::int64_t k_count = 0;
    std::int64_t q_offset = 0;
};

// Spans must not overlap in queries nor in keys; rows that no span names are neither read nor
// written. `spans` is host memory and may be reused when the call returns.
struct AttentionForward {
    ConstTensor q_THD;  // [Tq, H, D]
    ConstTensor k_TGD;  // [Tk, G, D]
    ConstTensor v_TGD;
    Tensor o_THD;
    Tensor lse_HT;  // [H, Tq]
    std::span<const AttentionSpan> spans;
    bool causal = true;
    float scale = 1;
    Tensor workspace;
};
void attention_forward(Queue& queue, const AttentionForward& args);

struct AttentionBackward {
    ConstTensor q_THD;
    ConstTensor k_TGD;
    ConstTensor v_TGD;
    ConstTensor o_THD;
    ConstTensor lse_HT;
    ConstTensor d_o_THD;
    Tensor d_q_THD;
    Tensor d_k_TGD;
    Tensor d_v_TGD;
    GradMode mode = GradMode::kOverwrite;  // of all three
    std::span<const AttentionSpan> spans;
    bool causal = true;
    float scale = 1;
    Tensor workspace;
};
void attention_backward(Queue& queue, const AttentionBackward& args);

struct AttentionSizes {
    DType dtype = DType::kFloat32;
    std::int64_t num_queries = 0;  // rows of q and of k: Tq, Tk
    std::int64_t num_keys = 0;
    std::int64_t num_heads = 0;
    std::int64_t num_kv_heads = 0;
    std::int64_t head_dim = 0;
};
// Enough for any spans over these rows. Not larger for more sequences than there are rows. May
// depend on the queue's threads.
std::size_t attention_forward_workspace_bytes(const Queue& queue, const AttentionSizes& sizes);
std::size_t attention_backward_workspace_bytes(const Queue& queue, const AttentionSizes& sizes);

// Builds the code for this type and head dimension, so that the first iteration is as fast as the
// others. Optional.
void attention_prepare(Queue& queue, const AttentionSizes& sizes);

// Forward multiply-adds of one head, times two, as they are counted for MFU: 4 * D * (visible
// query-key pairs).
double attention_flops(std::span<const AttentionSpan> spans,
                       bool causal,
                       std::int64_t num_heads,
                       std::int64_t head_dim);

}  // namespace dcp::kernels
