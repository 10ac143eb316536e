// Linear layers without bias, y = f(x) W^T, where f is what stands in front of the product:
// nothing, a norm, or the activation of a feed-forward block. f(x) is made block by block of rows
// and never stored whole: one pass over memory less each way, and nothing to keep for the backward
// pass but x.
//
//     forward            y[t,n]   = sum over k of f(x)[t,k] * w[n,k]  (+ residual[t,n])
//     backward, input    d_x[t,:] = J_f(x[t,:])^T applied to (sum over n of d_y[t,n] * w[n,:])  (+
//     residual[t,:]) backward, weight   d_w[n,k] (+)= sum over t of d_y[t,n] * f(x)[t,k]
//
// Weights are held by their owner as fp32 masters [N, K] and *prepared* once after every update:
// whatever the backend multiplies fastest (on a CPU packed blocks in the compute type for both
// directions; on a GPU a cast copy). A row of y depends on its own row of x alone. fp32 results do
// not depend on the number of threads. bf16 products accumulate in fp32; which partial sums are
// rounded depends on the processor's instructions, never on the number of threads.
#pragma once

#include <cstddef>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/grad_mode.hpp"

namespace dcp::kernels {

// True when products in this type run in hardware here. fp32: always. bf16: AVX512_BF16 or AMX (on
// this CPU), any supported GPU.
bool supports_dtype(const Queue& queue, DType dtype);

// A prepared weight: opaque bytes in memory of the queue's device, owned by the caller.
struct LinearWeight {
    Tensor prepared;  // uint8, linear_prepared_bytes long
    DType dtype = DType::kFloat32;
    std::int64_t N = 0;  // output features
    std::int64_t K = 0;  // input features
};
std::size_t linear_prepared_bytes(const Queue& queue, DType dtype, std::int64_t N, std::int64_t K);
// May build code for (dtype, N, K) the first time it sees them; the functions below never do.
void linear_prepare(Queue& queue, ConstTensor master_NK, const LinearWeight& weight);

enum class InputKind : std::uint8_t { kPlain, kRmsNorm, kLayerNorm, kSwiGlu, kGelu };

// f and x. Formulas: rmsnorm.hpp, layernorm.hpp, activation.hpp.
struct LinearInput {
    InputKind kind = InputKind::kPlain;
    ConstTensor x;              // [T, K]; for kSwiGlu [T, 2K], gates then ups
    ConstTensor norm_weight_K;  // norms: fp32
    ConstTensor norm_bias_K;    // kLayerNorm: fp32
    Tensor mean_T;  // kLayerNorm: fp32; written by linear_forward, read by the backward functions
    Tensor inverse_rms_T;  // norms (inverse standard deviation for kLayerNorm): written and read
                           // likewise
    float epsilon = 1e-5F;
};

// Turns the first num_heads * head_dim columns of y by their positions (rope.hpp).
struct RopeColumns {
    std::int64_t num_heads = 0;  // 0: no rotation
    std::int64_t head_dim = 0;
    ConstTensor positions_T;
    ConstTensor cos_PD;
    ConstTensor sin_PD;
};

struct LinearForward {
    LinearInput input;
    LinearWeight weight;
    ConstTensor residual_TN;  // optional; may be y_TN itself
    Tensor y_TN;              // the weight's compute type
    RopeColumns rope;
    Tensor workspace;  // uint8, at least linear_workspace_bytes(queue, weight, ...)
};
void linear_forward(Queue& queue, const LinearForward& args);

struct LinearBackwardInput {
    ConstTensor d_y_TN;
    LinearInput input;  // as in the forward call; for kPlain only the shape of x is used
    LinearWeight weight;
    ConstTensor residual_TK;  // optional; norms and kPlain only; may be d_x itself
    Tensor d_x;               // like x; overwritten; may be x itself for kSwiGlu and kGelu
    Tensor d_norm_weight_K;   // norms: fp32, accumulated
    Tensor d_norm_bias_K;     // kLayerNorm: fp32, accumulated
    Tensor workspace;
};
void linear_backward_input(Queue& queue, const LinearBackwardInput& args);

struct LinearBackwardWeight {
    ConstTensor d_y_TN;
    LinearInput input;    // as in the forward call
    LinearWeight weight;  // its sizes and type; the prepared bytes are not read
    Tensor d_w_NK;        // fp32
    GradMode mode = GradMode::kAccumulate;
    Tensor workspace;
};
void linear_backward_weight(Queue& queue, const LinearBackwardWeight& args);

// Enough for each of the three functions with up to T rows.
std::size_t linear_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K);

// Multiply-adds count two: 2 * T * N * K.
double linear_flops(std::int64_t T, std::int64_t N, std::int64_t K);

// Rate of this backend's own product of two large matrices, the same code as above, in FLOP/s:
// what "share of the matrix-product peak" on the console refers to. Runs for about a quarter of a
// second.
double measure_matmul_flops_per_second(Queue& queue, DType dtype);

}  // namespace dcp::kernels
