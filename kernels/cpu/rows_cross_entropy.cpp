// Softmax cross-entropy of rows of logits: the largest logit, then the sum of exponentials, then
// the gradient. Where the gradient is fp32, the exponentials of the second pass wait in its place
// and the third pass only scales them.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_cross_entropy.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

// A vocabulary has up to a quarter of a million words: fp32 sums over this many columns, then
// double.
inline constexpr std::int64_t kSumColumns = 4096;

HWY_INLINE float largest_of(const float* row, std::int64_t columns) {
    const std::int64_t step = num_lanes();
    float largest = row[0];
    std::int64_t column = 0;
    if (columns >= 4 * step) {
        FloatVector maxima[4];
        for (auto& maximum : maxima) {
            maximum = splat(largest);
        }
        for (; column + 4 * step <= columns; column += 4 * step) {
            for (std::int64_t part = 0; part < 4; ++part) {
                const auto value = load(row + column + part * step, AllLanes{});
                maxima[part] = hn::Max(maxima[part], value);
            }
        }
        const auto of_pairs = hn::Max(hn::Max(maxima[0], maxima[1]), hn::Max(maxima[2], maxima[3]));
        largest = hn::GetLane(hn::MaxOfLanes(FloatTag(), of_pairs));
    }
    for (; column < columns; ++column) {
        largest = std::max(largest, row[column]);
    }
    return largest;
}

// Sum of exp(row - largest); the exponentials are kept in `exponentials` unless it is null.
HWY_INLINE double sum_of_exponentials(const float* row,
                                      std::int64_t columns,
                                      float largest,
                                      float* exponentials) {
    const auto offset = splat(largest);
    double sum = 0;
    for (std::int64_t begin = 0; begin < columns; begin += kSumColumns) {
        float part[1];
        sum_columns(std::min(kSumColumns, columns - begin), part,
                    [&](std::int64_t c, auto lanes, FloatVector* sums) HWY_ATTR {
                        const auto e = exp(hn::Sub(load(row + begin + c, lanes), offset));
                        if (exponentials != nullptr) {
                            store(e, exponentials + begin + c, lanes);
                        }
                        sums[0] = hn::Add(sums[0], keep(e, lanes));
                    });
        sum += static_cast<double>(part[0]);
    }
    return sum;
}

template <class Gradient>
HWY_INLINE void store_one(double value, Gradient to) {
    store(splat(static_cast<float>(value)), to, FirstLanes{1});
}

template <class Gradient>
HWY_INLINE void fill_with_zeros(Gradient row, std::int64_t columns) {
    for_columns(columns, [&](std::int64_t c, auto lanes)
                             HWY_ATTR { store(hn::Zero(FloatTag()), row + c, lanes); });
}

void cross_entropy(ConstTensor logits,
                   const std::int32_t* targets,
                   const float* weights,
                   float* loss,
                   Tensor d_logits) {
    const std::int64_t columns = logits.dim(1);
    const auto logits_rows = rows_of<float>(logits);
    const bool keeps_exponentials = d_logits && d_logits.dtype() == DType::kFloat32;
    const auto kept_rows = rows_of<float>(d_logits);
    const auto kernel = [&](auto d_logits_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < logits.dim(0); ++t) {
            const auto target = static_cast<std::int64_t>(targets[t]);
            if (target < 0) {
                loss[t] = 0;
                if (d_logits) {
                    fill_with_zeros(d_logits_rows[t], columns);
                }
                continue;
            }
            const float* row = logits_rows[t];
            const float largest = largest_of(row, columns);
            const double below = static_cast<double>(row[target]) - static_cast<double>(largest);
            float* kept = keeps_exponentials ? kept_rows[t] : nullptr;
            const double sum = sum_of_exponentials(row, columns, largest, kept);
            loss[t] = static_cast<float>(std::log(sum) - below);
            if (!d_logits) {
                continue;
            }
            const auto d_row = d_logits_rows[t];
            const auto weight = static_cast<double>(weights[t]);
            const auto scale = splat(static_cast<float>(weight / sum));
            const auto offset = splat(largest);
            for_columns(columns, [&](std::int64_t c, auto lanes) HWY_ATTR {
                const auto e = kept != nullptr ? load(kept + c, lanes)
                                               : exp(hn::Sub(load(row + c, lanes), offset));
                store(hn::Mul(e, scale), d_row + c, lanes);
            });
            store_one(weight * (std::exp(below) / sum - 1), d_row + target);
        }
    };
    with_rows(kernel, d_logits);
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(cross_entropy);

void cross_entropy_rows(ConstTensor logits,
                        const std::int32_t* targets,
                        const float* weights,
                        float* loss,
                        Tensor d_logits) {
    HWY_DYNAMIC_DISPATCH(cross_entropy)(logits, targets, weights, loss, d_logits);
}

}  // namespace dcp::kernels::cpu
#endif
