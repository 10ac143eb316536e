#include "core/plan/model_shape.hpp"

#include "core/plan/cost_model.hpp"

namespace dcp::plan {

namespace {

// Of the spatial-temporal model, outside its blocks: input channels x patch, twice that out, width
// of the sinusoid that embeds a timestep or a frame rate.
constexpr double kPatchInputs = 4 * 2 * 2;
constexpr double kPatchOutputs = 2 * kPatchInputs;
constexpr double kSinusoid = 256;

double real(std::int64_t value) {
    return static_cast<double>(value);
}

double block_parameters(const ModelShape& s) {
    const double h = real(s.hidden);
    if (s.has_two_dimensions) {
        const double attention = 4 * h * h + 4 * h + 2 * real(s.head_dim);  // with q and k norms
        const double text = 4 * h * h + 4 * h;
        const double ffn = 2 * h * real(s.ffn) + real(s.ffn) + h;
        return 6 * h + attention + text + ffn;  // 6 h: the table of shifts, scales and gates
    }
    const double norms = (s.has_norm_biases ? 4 : 2) * h;
    return 2 * h * real(s.heads_width() + s.kv_width()) + (s.is_gated ? 3 : 2) * h * real(s.ffn) +
           norms;
}

double parameters_outside(const ModelShape& s) {
    const double h = real(s.hidden);
    if (s.has_two_dimensions) {
        const double patches = kPatchInputs * h + h;
        const double scalars = 2 * (kSinusoid * h + h + h * h + h);
        const double modulation = 6 * h * h + 6 * h;
        const double text = real(s.text_width) * h + h + h * h + h;
        const double last = 2 * h + kPatchOutputs * h + kPatchOutputs;
        return patches + scalars + modulation + text + last;
    }
    const double norm = (s.has_norm_biases ? 2 : 1) * h;
    return (s.ties_embeddings ? 1 : 2) * real(s.vocab) * h + norm;
}

}  // namespace

double count_parameters(const ModelShape& s) {
    return s.layers * block_parameters(s) + parameters_outside(s);
}

double layer_token_flops(const ModelShape& s) {
    const double h = real(s.hidden);
    if (s.has_two_dimensions) {
        // qkv 3, proj 1, text q 1, text proj 1: 6 h^2 multiplications; 4 h for each text row.
        return s.layers * (2 * (6 * h * h + 2 * h * real(s.ffn)) + 4 * real(s.text_tokens) * h);
    }
    const double products =
        2 * h * real(s.heads_width() + s.kv_width()) + (s.is_gated ? 3 : 2) * h * real(s.ffn);
    return s.layers * 2 * products;
}

double head_token_flops(const ModelShape& s) {
    return s.has_two_dimensions ? 0 : 2 * real(s.hidden) * real(s.vocab);
}

double pair_flops(const ModelShape& s) {
    const double a_layer = 4 * real(s.heads_width());
    if (s.has_two_dimensions) {
        return s.layers / 2.0 * a_layer;  // spatial pairs are in one half of the blocks
    }
    return s.layers * a_layer * (s.is_causal ? 0.5 : 1);
}

double sequence_flops(const ModelShape& s) {
    return s.has_two_dimensions
               ? s.layers * 4 * real(s.hidden) * real(s.hidden) * real(s.text_tokens)
               : 0;
}

double training_flops(const ModelShape& s, const Sequence& sequence) {
    return 3 * ((layer_token_flops(s) + head_token_flops(s)) * real(sequence.tokens) +
                pair_flops(s) * attention_pairs(sequence) + sequence_flops(s));
}

double kept_elements(const ModelShape& s) {
    if (s.has_two_dimensions) {
        // x, qkv (3), attention, its product, x again, text query, text attention, x again, and of
        // the feed-forward block both products' outputs.
        return 11 * real(s.hidden) + real(s.ffn);
    }
    // x, qkv, attention output, x after it, the first products of the feed-forward block.
    return 2 * real(s.hidden) + 2 * real(s.heads_width() + s.kv_width()) +
           (s.is_gated ? 2 : 1) * real(s.ffn);
}

double kept_statistics(const ModelShape& s) {
    // Log-sums of attention, a mean and a root for each norm.
    if (s.has_two_dimensions) {
        return 2 * real(s.heads) + 8;
    }
    return real(s.heads) + (s.has_norm_biases ? 4 : 2);
}

double working_elements(const ModelShape& s) {
    // Gradients: of x (two, which take turns), of the attention output, of qkv.
    return 2 * real(s.hidden) + 2 * real(s.heads_width() + s.kv_width());
}

}  // namespace dcp::plan
