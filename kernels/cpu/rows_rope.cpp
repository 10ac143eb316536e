// Rotation of pairs of columns by position.
#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_rope.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

void rope(Tensor x,
          std::int64_t num_heads,
          std::int64_t head_dim,
          const std::int32_t* positions,
          ConstTensor cos,
          ConstTensor sin,
          bool inverse) {
    const std::int64_t half = head_dim / 2;
    const auto cos_rows = rows_of<float>(cos);
    const auto sin_rows = rows_of<float>(sin);
    const auto sign = splat(inverse ? -1.0F : 1.0F);
    const auto kernel = [&](auto x_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const float* cos_row = cos_rows[positions[t]];
            const float* sin_row = sin_rows[positions[t]];
            const auto x_row = x_rows[t];
            // Columns outside, heads inside: cosine and sine stay in registers for all heads.
            for_columns(half, [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto cosine = load(cos_row + c, lanes);
                const auto sine = hn::Mul(load(sin_row + c, lanes), sign);
                for (std::int64_t head = 0; head < num_heads; ++head) {
                    const auto first = x_row + (head * head_dim + c);
                    const auto second = first + half;
                    const auto a = load(first, lanes);
                    const auto b = load(second, lanes);
                    store(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), first, lanes);
                    store(hn::MulAdd(a, sine, hn::Mul(b, cosine)), second, lanes);
                }
            });
        }
    };
    with_rows(kernel, x);
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(rope);

void rope_rows(Tensor x,
               std::int64_t num_heads,
               std::int64_t head_dim,
               const std::int32_t* positions,
               ConstTensor cos,
               ConstTensor sin,
               bool inverse) {
    HWY_DYNAMIC_DISPATCH(rope)(x, num_heads, head_dim, positions, cos, sin, inverse);
}

}  // namespace dcp::kernels::cpu
#endif
