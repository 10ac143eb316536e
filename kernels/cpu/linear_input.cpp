#include "kernels/cpu/linear_input.hpp"

#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

void input_rows_forward(const LinearInput& input,
                        std::int64_t begin,
                        Statistics statistics,
                        Tensor y) {
    const ConstTensor x = input.x.rows(begin, y.dim(0));
    const bool writes = statistics == Statistics::kWrite;
    switch (input.kind) {
        case InputKind::kPlain:
            add_rows(x, {}, y);
            return;
        case InputKind::kRmsNorm: {
            float* inverse_rms = input.inverse_rms_T.as<float>() + begin;
            writes ? rmsnorm_rows_forward(x, input.norm_weight_K, input.epsilon, y, inverse_rms)
                   : rmsnorm_rows_apply(x, input.norm_weight_K, inverse_rms, y);
            return;
        }
        case InputKind::kLayerNorm: {
            float* mean = input.mean_T.as<float>() + begin;
            float* inverse_std = input.inverse_rms_T.as<float>() + begin;
            writes ? layernorm_rows_forward(x, input.norm_weight_K, input.norm_bias_K,
                                            input.epsilon, y, mean, inverse_std)
                   : layernorm_rows_apply(x, input.norm_weight_K, input.norm_bias_K, mean,
                                          inverse_std, y);
            return;
        }
        case InputKind::kSwiGlu:
            swiglu_rows_forward(x, y);
            return;
        case InputKind::kGelu:
            gelu_rows_forward(x, y);
            return;
    }
}

void input_rows_backward(const LinearInput& input,
                         std::int64_t begin,
                         ConstTensor d_f,
                         ConstTensor residual_TK,
                         Tensor d_x,
                         const NormPartials& partials) {
    const std::int64_t count = d_f.dim(0);
    const Tensor to = d_x.rows(begin, count);
    const ConstTensor residual = residual_TK ? residual_TK.rows(begin, count) : ConstTensor{};
    if (input.kind == InputKind::kPlain) {
        add_rows(d_f, residual, to);
        return;
    }
    const ConstTensor x = input.x.rows(begin, count);
    switch (input.kind) {
        case InputKind::kRmsNorm:
            rmsnorm_rows_backward(d_f, x, input.norm_weight_K,
                                  input.inverse_rms_T.as<float>() + begin, residual, to,
                                  partials.d_weight);
            return;
        case InputKind::kLayerNorm:
            layernorm_rows_backward(d_f, x, input.norm_weight_K, input.mean_T.as<float>() + begin,
                                    input.inverse_rms_T.as<float>() + begin, residual, to,
                                    partials.d_weight, partials.d_bias);
            return;
        case InputKind::kSwiGlu:
            swiglu_rows_backward(d_f, x, to);
            return;
        default:
            gelu_rows_backward(d_f, x, to);
            return;
    }
}

}  // namespace dcp::kernels::cpu
