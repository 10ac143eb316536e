// Transformer-1D: embedding, a stack of blocks, final norm, output matrix, cross-entropy; forward
// and backward written by hand.
//
// One call trains one micro-batch: gradients are added to the flat gradient array, nothing is
// averaged. The order of calls in an iteration is  prepare (after the weights changed) -> zero the
// gradients -> train_micro_batch, once a micro-batch -> optimizer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/config/config.hpp"
#include "core/model/block.hpp"
#include "core/model/micro_batch.hpp"
#include "core/model/parameters.hpp"
#include "kernels/head_loss.hpp"
#include "kernels/rope.hpp"

namespace dcp::model {

enum class Purpose : std::uint8_t { kTraining, kEvaluation };  // evaluation has no gradients

class Transformer {
public:
    // Allocates parameters, gradients, prepared weights and the rotation table (positions 0 ..
    // max_positions - 1). Weights are undefined until initialize() or a copy into parameters();
    // prepare() must follow.
    Transformer(const config::ModelConfig& config,
                DType compute,
                std::int64_t max_positions,
                Purpose purpose,
                Queue& queue,
                Arena& arena);

    const config::ModelConfig& config() const { return config_; }
    const ParameterLayout& layout() const { return layout_; }
    DType compute() const { return compute_; }
    Tensor parameters() const { return parameters_; }
    Tensor gradients() const { return gradients_; }

    // Normal with standard deviation 0.02, matrices that write into the residual stream 0.02 /
    // sqrt(2 L) (Radford et al. 2019); norms 1, biases 0. Keyed by (seed, tensor name, element):
    // the same weights for any layout, rank or number of threads.
    void initialize(Queue& queue, std::uint64_t seed);

    void prepare(Queue& queue);

    // `attention` is how the tokens here meet those of the same sequences on other ranks.
    // loss_T: fp32, one a token, not weighted. The first recompute_layers blocks keep only their
    // input; results are bitwise the same.
    void train_micro_batch(Queue& queue,
                           Arena& arena,
                           const MicroBatch& batch,
                           SequenceAttention& attention,
                           std::int64_t recompute_layers,
                           Tensor loss_T);
    void evaluate_micro_batch(Queue& queue, Arena& arena, const MicroBatch& batch, Tensor loss_T);

    // Exactly what the two push onto the arena at their highest point, for T tokens.
    std::int64_t training_bytes(const Queue& queue,
                                const AttentionBytes& attention,
                                std::int64_t T,
                                std::int64_t recompute_layers) const;
    std::int64_t evaluation_bytes(const Queue& queue, std::int64_t T) const;

    // Floating-point operations of training on whole sequences of these lengths, as they are
    // counted for MFU: 3 times the forward pass, nothing for recomputation.
    double training_flops(std::span<const std::int64_t> lengths) const;

    // The parts of train_micro_batch, for those who measure them one by one (core/profile): a block
    // by itself, what makes its input, and everything that is not a block, forward and backward.
    Block& block(std::int64_t layer) { return *blocks_.at(static_cast<std::size_t>(layer)); }
    const Block& block(std::int64_t layer) const {
        return *blocks_.at(static_cast<std::size_t>(layer));
    }
    void embed(Queue& queue, ConstTensor tokens_T, Tensor x_TC) const;
    void train_ends(Queue& queue, Arena& arena, const MicroBatch& batch, Tensor loss_T);

private:
    void train_blocks(PassContext& pass,
                      std::size_t layer,
                      std::int64_t recompute_layers,
                      ConstTensor x_TC,
                      Tensor d_x_TC,
                      Tensor loss_T);
    void run_head(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC, Tensor loss_T);
    std::int64_t head_bytes(const Queue& queue, std::int64_t T) const;

    config::ModelConfig config_;
    DType compute_;
    ParameterLayout layout_;
    Tensor parameters_;
    Tensor gradients_;
    Tensor embedding_VC_, d_embedding_VC_;
    Tensor head_VC_, d_head_VC_;  // the embedding itself when tied
    Tensor norm_C_, norm_bias_C_, d_norm_C_, d_norm_bias_C_;
    kernels::RopeTable rope_;
    kernels::LinearWeight head_;
    std::vector<std::unique_ptr<Block>> blocks_;
    LocalAttention local_attention_;
};

}  // namespace dcp::model
