// The block of a Transformer-1D (pre-norm, as in Llama; letters: core/base/tensor.hpp):
//
//     qkv   = rotate(norm(x) W_qkv^T)          x_mid = x + attention(qkv) W_o^T
//     up    = norm(x_mid) W_up^T               y     = x_mid + activation(up) W_down^T
//
// What is kept for the backward pass is the lean set: x, qkv, o, log-sum-exp, x_mid, up and the
// statistics of the two norms, that is (4 C + (H + 2 G) D - C + 2 F) elements a token with SwiGLU
// when H D = C. Norms and activations are made again inside the products that read them
// (kernels/linear.hpp). The gradient of `up` overwrites `up`.
#pragma once

#include "core/model/block.hpp"
#include "core/model/parameters.hpp"
#include "kernels/linear.hpp"
#include "kernels/rope.hpp"

namespace dcp::model {

class TransformerBlock final : public Block {
public:
    // The tensors are views of the owner's flat arrays; gradients may be empty when the model only
    // evaluates. Prepared weights are allocated here.
    TransformerBlock(const config::ModelConfig& config,
                     DType compute,
                     const BlockTensors& parameters,
                     const BlockTensors& gradients,
                     const kernels::RopeTable& rope,
                     const Queue& queue,
                     Arena& arena);

    void allocate_saved(PassContext& pass) override;
    void forward(PassContext& pass, ConstTensor x_TC, Tensor y_TC) override;
    void backward(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC) override;

    std::int64_t saved_bytes(const AttentionBytes& attention, std::int64_t T) const override;
    std::int64_t forward_scratch_bytes(const Queue& queue,
                                       const AttentionBytes& attention,
                                       std::int64_t T) const override;
    std::int64_t backward_scratch_bytes(const Queue& queue,
                                        const AttentionBytes& attention,
                                        std::int64_t T) const override;
    void prepare(Queue& queue) override;

private:
    struct Saved {
        Tensor qkv_TN;  // empty where attention keeps it in its state
        Tensor o_TN;
        Tensor attention_state;  // on one rank: log-sum-exp
        Tensor x_mid_TC;
        Tensor up_TF;                                  // SwiGLU: gate and up, [T, 2F]
        Tensor attention_mean_T, attention_inverse_T;  // the means are empty with RMSNorm
        Tensor ffn_mean_T, ffn_inverse_T;
    };

    kernels::LinearInput attention_input(ConstTensor x_TC) const;
    kernels::LinearInput attention_output() const;
    kernels::LinearInput ffn_input() const;
    kernels::LinearInput ffn_activation() const;
    Tensor linear_workspace(PassContext& pass, const kernels::LinearWeight& weight) const;
    std::int64_t linear_scratch_bytes(const Queue& queue,
                                      const kernels::LinearWeight& weight,
                                      std::int64_t T) const;
    void forward_attention(PassContext& pass, ConstTensor x_TC);
    void backward_ffn(PassContext& pass, Tensor d_x_TC);
    void backward_attention(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC);
    void rotate_back(PassContext& pass, Tensor d_qkv_TN) const;

    config::ModelConfig config_;
    DType compute_;
    AttentionShape attention_shape_;
    BlockTensors parameters_;
    BlockTensors gradients_;
    kernels::RopeTable rope_;
    kernels::LinearWeight qkv_, o_, up_, down_;
    Saved saved_;
};

}  // namespace dcp::model
