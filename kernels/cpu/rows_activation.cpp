// SwiGLU, GELU and addition over rows.
//
// Both activations are written with the logistic function s: 1 + tanh(u) = 2 s(2u), so that
//
//     gelu(x) = x s(2u)        gelu'(x) = s + 2 x s (1 - s) u'
//
// have no cancellation where tanh(u) is close to -1, and one exp serves the function and its slope.
#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_activation.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

inline constexpr float kSqrt8OverPi = 1.5957691216F;  // 2 sqrt(2/pi): 2u = this * (x + k x^3)
inline constexpr float kGeluCubic = 0.044715F;

// s(a) and 1 - s(a) from -a, each with its own full relative accuracy.
struct Logistic {
    FloatVector s;
    FloatVector one_minus_s;
};
HWY_INLINE Logistic logistic(FloatVector minus_a) {
    const auto e = exp_in_range(minus_a);
    const auto s = hn::Div(splat(1), hn::Add(splat(1), e));
    return {s, hn::Mul(e, s)};
}

// -2u, and the derivative of 2u.
HWY_INLINE FloatVector gelu_argument(FloatVector x) {
    const auto x2 = hn::Mul(x, x);
    return hn::Mul(x, hn::MulAdd(x2, splat(-kGeluCubic * kSqrt8OverPi), splat(-kSqrt8OverPi)));
}
HWY_INLINE FloatVector gelu_argument_slope(FloatVector x) {
    const auto x2 = hn::Mul(x, x);
    return hn::MulAdd(x2, splat(3 * kGeluCubic * kSqrt8OverPi), splat(kSqrt8OverPi));
}

void swiglu_forward(ConstTensor gate_up, Tensor y) {
    const std::int64_t columns = y.dim(1);
    const auto kernel = [&](auto gate_up_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < y.dim(0); ++t) {
            const auto gate = gate_up_rows[t];
            const auto up = gate + columns;
            const auto y_row = y_rows[t];
            for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto a = load(gate + c, lanes);
                const auto silu = hn::Mul(a, logistic(hn::Neg(a)).s);
                store(hn::Mul(silu, load(up + c, lanes)), y_row + c, lanes);
            });
        }
    };
    with_rows(kernel, gate_up, y);
}

void swiglu_backward(ConstTensor d_y, ConstTensor gate_up, Tensor d_gate_up) {
    const std::int64_t columns = d_y.dim(1);
    const auto kernel = [&](auto d_y_rows, auto gate_up_rows, auto d_gate_up_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < d_y.dim(0); ++t) {
            const auto d_y_row = d_y_rows[t];
            const auto gate = gate_up_rows[t];
            const auto up = gate + columns;
            const auto d_gate = d_gate_up_rows[t];
            const auto d_up = d_gate + columns;
            for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto d = load(d_y_row + c, lanes);
                const auto a = load(gate + c, lanes);
                const auto u = load(up + c, lanes);
                const auto at = logistic(hn::Neg(a));
                const auto slope = hn::Mul(at.s, hn::MulAdd(a, at.one_minus_s, splat(1)));
                store(hn::Mul(hn::Mul(d, u), slope), d_gate + c, lanes);
                store(hn::Mul(d, hn::Mul(a, at.s)), d_up + c, lanes);
            });
        }
    };
    with_rows(kernel, d_y, gate_up, d_gate_up);
}

void gelu_forward(ConstTensor x, Tensor y) {
    const auto kernel = [&](auto x_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const auto x_row = x_rows[t];
            const auto y_row = y_rows[t];
            for_columns(x.dim(1), [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto value = load(x_row + c, lanes);
                store(hn::Mul(value, logistic(gelu_argument(value)).s), y_row + c, lanes);
            });
        }
    };
    with_rows(kernel, x, y);
}

void gelu_backward(ConstTensor d_y, ConstTensor x, Tensor d_x) {
    const auto kernel = [&](auto d_y_rows, auto x_rows, auto d_x_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const auto d_y_row = d_y_rows[t];
            const auto x_row = x_rows[t];
            const auto d_x_row = d_x_rows[t];
            for_columns(x.dim(1), [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto value = load(x_row + c, lanes);
                const auto at = logistic(gelu_argument(value));
                const auto inner =
                    hn::Mul(hn::Mul(value, gelu_argument_slope(value)), at.one_minus_s);
                const auto slope = hn::MulAdd(at.s, inner, at.s);
                store(hn::Mul(load(d_y_row + c, lanes), slope), d_x_row + c, lanes);
            });
        }
    };
    with_rows(kernel, d_y, x, d_x);
}

void add(ConstTensor a, ConstTensor b, Tensor y) {
    const bool has_b = static_cast<bool>(b);
    const ConstTensor never_null = has_b ? b : a;
    const auto kernel = [&](auto a_rows, auto b_rows, auto y_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < y.dim(0); ++t) {
            const auto a_row = a_rows[t];
            const auto b_row = b_rows[t];
            const auto y_row = y_rows[t];
            for_columns(y.dim(1), [&](std::int64_t c, auto lanes) HWY_ATTR {
                auto sum = load(a_row + c, lanes);
                if (has_b) {
                    sum = hn::Add(sum, load(b_row + c, lanes));
                }
                store(sum, y_row + c, lanes);
            });
        }
    };
    with_rows(kernel, a, never_null, y);
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(swiglu_forward);
HWY_EXPORT(swiglu_backward);
HWY_EXPORT(gelu_forward);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(add);

void swiglu_rows_forward(ConstTensor gate_up, Tensor y) {
    HWY_DYNAMIC_DISPATCH(swiglu_forward)(gate_up, y);
}

void swiglu_rows_backward(ConstTensor d_y, ConstTensor gate_up, Tensor d_gate_up) {
    HWY_DYNAMIC_DISPATCH(swiglu_backward)(d_y, gate_up, d_gate_up);
}

void gelu_rows_forward(ConstTensor x, Tensor y) {
    HWY_DYNAMIC_DISPATCH(gelu_forward)(x, y);
}

void gelu_rows_backward(ConstTensor d_y, ConstTensor x, Tensor d_x) {
    HWY_DYNAMIC_DISPATCH(gelu_backward)(d_y, x, d_x);
}

void add_rows(ConstTensor a, ConstTensor b, Tensor y) {
    HWY_DYNAMIC_DISPATCH(add)(a, b, y);
}

}  // namespace dcp::kernels::cpu
#endif
