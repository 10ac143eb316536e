// The sizes of a model, and what follows from them alone: parameters, operations, bytes that a
// layer keeps. Formulas are those of docs/planning.md; an operation is one multiplication or
// addition.
//
// Two kinds. One dimension: a transformer on a flat sequence. Two: a spatial-temporal one, whose
// blocks attend in turn to the tokens of a frame and to one position in all frames, and to a text.
// Its blocks count as layers, and every cost is that of the mean of a spatial and a temporal block.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/plan.hpp"

namespace dcp::plan {

struct ModelShape {
    std::string name;
    bool has_two_dimensions = false;
    int layers = 1;  // the recompute depth runs from 0 to this
    std::int64_t hidden = 1;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;
    std::int64_t head_dim = 1;
    std::int64_t ffn = 1;

    // One dimension.
    std::int64_t vocab = 0;
    bool is_gated = true;          // SwiGLU: three products in the feed-forward block, not two
    bool has_norm_biases = false;  // LayerNorm
    bool is_causal = true;
    bool ties_embeddings = false;

    // Two dimensions: what every sequence attends to.
    std::int64_t text_tokens = 0;
    std::int64_t text_width = 0;

    std::int64_t heads_width() const { return heads * head_dim; }
    std::int64_t kv_width() const { return kv_heads * head_dim; }
};

double count_parameters(const ModelShape& shape);

// Forward, all layers together. Of a token: matrix products, and attention to the text. Of a pair:
// attention to tokens, where a pair is one of attention_pairs(). Of a sequence: keys and values of
// its text.
double layer_token_flops(const ModelShape& shape);
double head_token_flops(const ModelShape& shape);  // the output layer, which is never recomputed
double pair_flops(const ModelShape& shape);
double sequence_flops(const ModelShape& shape);

// Forward and backward (twice the forward), nothing recomputed: what utilisation is counted in.
double training_flops(const ModelShape& shape, const Sequence& sequence);

// Elements that a layer keeps for each token, and 4-byte numbers beside them. Kept are the layer's
// input and what its backward pass reads: products' inputs that norms and activations do not give
// again.
double kept_elements(const ModelShape& shape);
double kept_statistics(const ModelShape& shape);
// Elements for each token that the backward pass of the layer at work holds beside those.
double working_elements(const ModelShape& shape);

}  // namespace dcp::plan
