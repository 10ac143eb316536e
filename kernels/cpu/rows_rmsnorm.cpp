// RMSNorm of rows. A row is read two times, from the first-level cache the second time.
#include <cmath>

#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_rmsnorm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

// The one place where y is computed: the forward pass and its repetition give equal bits.
template <class X, class Y>
HWY_INLINE void scale_row(X x, const float* weight, float inverse_rms, Y y, std::int64_t columns) {
    const auto r = splat(inverse_rms);
    for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
        const auto normed = hn::Mul(load(x + c, lanes), r);
        store(hn::Mul(normed, load(weight + c, lanes)), y + c, lanes);
    });
}

void rmsnorm_forward(
    ConstTensor x, ConstTensor weight, float epsilon, Tensor y, float* inverse_rms) {
    const std::int64_t columns = x.dim(1);
    const auto* w = weight.as<float>();
    const auto kernel = [&](auto x_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const auto x_row = x_rows[t];
            float squares[1];
            sum_columns(columns, squares,
                        [&](std::int64_t c, auto lanes, FloatVector* sums) HWY_ATTR {
                            const auto value = load(x_row + c, lanes);
                            sums[0] = hn::MulAdd(value, value, sums[0]);
                        });
            inverse_rms[t] = 1 / std::sqrt(squares[0] / static_cast<float>(columns) + epsilon);
            scale_row(x_row, w, inverse_rms[t], y_rows[t], columns);
        }
    };
    with_rows(kernel, x, y);
}

void rmsnorm_apply(ConstTensor x, ConstTensor weight, const float* inverse_rms, Tensor y) {
    const auto* w = weight.as<float>();
    const auto kernel = [&](auto x_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            scale_row(x_rows[t], w, inverse_rms[t], y_rows[t], x.dim(1));
        }
    };
    with_rows(kernel, x, y);
}

// With n = x r:  d_x = residual + r (g - n mean(g n)), the formula of rmsnorm.hpp in other words.
void rmsnorm_backward(ConstTensor d_y,
                      ConstTensor x,
                      ConstTensor weight,
                      const float* inverse_rms,
                      ConstTensor residual,
                      Tensor d_x,
                      float* d_weight) {
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
            const auto r = splat(inverse_rms[t]);
            float products[1];
            sum_columns(columns, products,
                        [&](std::int64_t c, auto lanes, FloatVector* sums) HWY_ATTR {
                            const auto g = hn::Mul(load(d_y_row + c, lanes), load(w + c, lanes));
                            sums[0] = hn::MulAdd(g, load(x_row + c, lanes), sums[0]);
                        });
            const auto mean = splat(products[0] * inverse_rms[t] / static_cast<float>(columns));
            for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto d = load(d_y_row + c, lanes);
                const auto n = hn::Mul(load(x_row + c, lanes), r);
                const auto before = load(d_weight + c, lanes);
                store(hn::MulAdd(d, n, before), d_weight + c, lanes);
                const auto g = hn::Mul(d, load(w + c, lanes));
                auto result = hn::Mul(r, hn::NegMulAdd(n, mean, g));
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

HWY_EXPORT(rmsnorm_forward);
HWY_EXPORT(rmsnorm_apply);
HWY_EXPORT(rmsnorm_backward);

void rmsnorm_rows_forward(
    ConstTensor x, ConstTensor weight, float epsilon, Tensor y, float* inverse_rms) {
    HWY_DYNAMIC_DISPATCH(rmsnorm_forward)(x, weight, epsilon, y, inverse_rms);
}

void rmsnorm_rows_apply(ConstTensor x, ConstTensor weight, const float* inverse_rms, Tensor y) {
    HWY_DYNAMIC_DISPATCH(rmsnorm_apply)(x, weight, inverse_rms, y);
}

void rmsnorm_rows_backward(ConstTensor d_y,
                           ConstTensor x,
                           ConstTensor weight,
                           const float* inverse_rms,
                           ConstTensor residual,
                           Tensor d_x,
                           float* d_weight) {
    HWY_DYNAMIC_DISPATCH(rmsnorm_backward)(d_y, x, weight, inverse_rms, residual, d_x, d_weight);
}

}  // namespace dcp::kernels::cpu
#endif
