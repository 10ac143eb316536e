// LayerNorm of rows. The variance is summed around the mean, in a pass of its own: the difference
// of two large sums would lose the digits of rows that are far from zero.
#include <cmath>

#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_layernorm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

// The one place where y is computed: the forward pass and its repetition give equal bits.
template <class X, class Y>
HWY_INLINE void scale_row(X x,
                          const float* weight,
                          const float* bias,
                          float mean,
                          float inverse_std,
                          Y y,
                          std::int64_t columns) {
    const auto center = splat(mean);
    const auto r = splat(inverse_std);
    for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
        const auto normed = hn::Mul(hn::Sub(load(x + c, lanes), center), r);
        store(hn::MulAdd(normed, load(weight + c, lanes), load(bias + c, lanes)), y + c, lanes);
    });
}

void layernorm_forward(ConstTensor x,
                       ConstTensor weight,
                       ConstTensor bias,
                       float epsilon,
                       Tensor y,
                       float* mean,
                       float* inverse_std) {
    const std::int64_t columns = x.dim(1);
    const auto* w = weight.as<float>();
    const auto* b = bias.as<float>();
    const auto kernel = [&](auto x_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const auto x_row = x_rows[t];
            float sum[1];
            sum_columns(columns, sum, [&](std::int64_t c, auto lanes, FloatVector* sums) HWY_ATTR {
                sums[0] = hn::Add(sums[0], load(x_row + c, lanes));
            });
            mean[t] = sum[0] / static_cast<float>(columns);
            const auto center = splat(mean[t]);
            float squares[1];
            sum_columns(columns, squares,
                        [&](std::int64_t c, auto lanes, FloatVector* sums) HWY_ATTR {
                            const auto away = hn::Sub(load(x_row + c, lanes), center);
                            sums[0] = hn::MulAdd(keep(away, lanes), away, sums[0]);
                        });
            inverse_std[t] = 1 / std::sqrt(squares[0] / static_cast<float>(columns) + epsilon);
            scale_row(x_row, w, b, mean[t], inverse_std[t], y_rows[t], columns);
        }
    };
    with_rows(kernel, x, y);
}

void layernorm_apply(ConstTensor x,
                     ConstTensor weight,
                     ConstTensor bias,
                     const float* mean,
                     const float* inverse_std,
                     Tensor y) {
    const auto* w = weight.as<float>();
    const auto* b = bias.as<float>();
    const auto kernel = [&](auto x_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            scale_row(x_rows[t], w, b, mean[t], inverse_std[t], y_rows[t], x.dim(1));
        }
    };
    with_rows(kernel, x, y);
}

void layernorm_backward(ConstTensor d_y,
                        ConstTensor x,
                        ConstTensor weight,
                        const float* mean,
                        const float* inverse_std,
                        ConstTensor residual,
                        Tensor d_x,
                        float* d_weight,
                        float* d_bias) {
    const std::int64_t columns = x.dim(1);
    const auto* w = weight.as<float>();
    const bool has_residual = static_cast<bool>(residual);
    const ConstTensor never_null = has_residual ? residual : d_y;
    const auto kernel = [&](auto d_y_rows, auto x_rows, auto residual_rows,
                            auto d_x_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const auto d_y_row = d_y_rows[t];
            const auto x_row = x_rows[t];
            const auto residual_row = residual_rows[t];
            const auto d_x_row = d_x_rows[t];
            const auto center = splat(mean[t]);
            const auto r = splat(inverse_std[t]);
            float totals[2];  // of g and of g n; g is zero in lanes that do not exist
            sum_columns(columns, totals,
                        [&](std::int64_t c, auto lanes, FloatVector* sums) HWY_ATTR {
                            const auto g = hn::Mul(load(d_y_row + c, lanes), load(w + c, lanes));
                            const auto n = hn::Mul(hn::Sub(load(x_row + c, lanes), center), r);
                            sums[0] = hn::Add(sums[0], g);
                            sums[1] = hn::MulAdd(g, n, sums[1]);
                        });
            const auto mean_g = splat(totals[0] / static_cast<float>(columns));
            const auto mean_gn = splat(totals[1] / static_cast<float>(columns));
            for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto d = load(d_y_row + c, lanes);
                const auto n = hn::Mul(hn::Sub(load(x_row + c, lanes), center), r);
                store(hn::MulAdd(d, n, load(d_weight + c, lanes)), d_weight + c, lanes);
                store(hn::Add(load(d_bias + c, lanes), d), d_bias + c, lanes);
                const auto g = hn::Mul(d, load(w + c, lanes));
                auto result = hn::Mul(r, hn::NegMulAdd(n, mean_gn, hn::Sub(g, mean_g)));
                if (has_residual) {
                    result = hn::Add(result, load(residual_row + c, lanes));
                }
                store(result, d_x_row + c, lanes);
            });
        }
    };
    with_rows(kernel, d_y, x, never_null, d_x);
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(layernorm_forward);
HWY_EXPORT(layernorm_apply);
HWY_EXPORT(layernorm_backward);

void layernorm_rows_forward(ConstTensor x,
                            ConstTensor weight,
                            ConstTensor bias,
                            float epsilon,
                            Tensor y,
                            float* mean,
                            float* inverse_std) {
    HWY_DYNAMIC_DISPATCH(layernorm_forward)(x, weight, bias, epsilon, y, mean, inverse_std);
}

void layernorm_rows_apply(ConstTensor x,
                          ConstTensor weight,
                          ConstTensor bias,
                          const float* mean,
                          const float* inverse_std,
                          Tensor y) {
    HWY_DYNAMIC_DISPATCH(layernorm_apply)(x, weight, bias, mean, inverse_std, y);
}

void layernorm_rows_backward(ConstTensor d_y,
                             ConstTensor x,
                             ConstTensor weight,
                             const float* mean,
                             const float* inverse_std,
                             ConstTensor residual,
                             Tensor d_x,
                             float* d_weight,
                             float* d_bias) {
    HWY_DYNAMIC_DISPATCH(layernorm_backward)
    (d_y, x, weight, mean, inverse_std, residual, d_x, d_weight, d_bias);
}

}  // namespace dcp::kernels::cpu
#endif
