// AdamW in one pass over its four arrays, and sums over flat arrays.
//
// A sum is taken over fixed blocks of elements in double, then over the blocks in order: the number
// of threads cannot show.
#include <cmath>
#include <cstring>

#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_operations.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

// p -= lr decay p + (lr / bias1) m / (sqrt(v / bias2) + epsilon), with the factors made in double.
// The two small terms are added first: p is rounded once, and a decay of 1e-5 is not lost in a
// factor close to 1.
void adamw_elements(const AdamW& args, std::int64_t begin, std::int64_t count) {
    const auto step = static_cast<double>(args.step);
    const double bias1 = 1 - std::pow(args.beta1, step);
    const double bias2 = 1 - std::pow(args.beta2, step);
    const auto scale = splat(static_cast<float>(args.gradient_scale));
    const auto beta1 = splat(static_cast<float>(args.beta1));
    const auto beta2 = splat(static_cast<float>(args.beta2));
    const auto rest1 = splat(static_cast<float>(1 - args.beta1));
    const auto rest2 = splat(static_cast<float>(1 - args.beta2));
    const auto rate = splat(static_cast<float>(args.learning_rate / bias1));
    const auto inverse_bias2 = splat(static_cast<float>(1 / bias2));
    const auto epsilon = splat(static_cast<float>(args.epsilon));
    const auto decay = splat(static_cast<float>(args.learning_rate * args.decay));
    float* parameters = args.parameters.as<float>() + begin;
    const float* gradients = args.gradients.as<float>() + begin;
    float* first_moments = args.first_moments.as<float>() + begin;
    float* second_moments = args.second_moments.as<float>() + begin;
    for_columns(count, [&](std::int64_t i, auto lanes) HWY_ATTR {
        const auto g = hn::Mul(load(gradients + i, lanes), scale);
        const auto m = hn::MulAdd(rest1, g, hn::Mul(beta1, load(first_moments + i, lanes)));
        const auto v =
            hn::MulAdd(rest2, hn::Mul(g, g), hn::Mul(beta2, load(second_moments + i, lanes)));
        const auto p = load(parameters + i, lanes);
        const auto spread = hn::Add(hn::Sqrt(hn::Mul(v, inverse_bias2)), epsilon);
        const auto change = hn::MulAdd(decay, p, hn::Div(hn::Mul(rate, m), spread));
        store(m, first_moments + i, lanes);
        store(v, second_moments + i, lanes);
        store(hn::Sub(p, change), parameters + i, lanes);
    });
}

using DoubleTag = hn::ScalableTag<double>;
using HalfFloatTag = hn::Rebind<float, DoubleTag>;

// Sum of x[i] * y[i], both read as fp32 and multiplied in double (exactly). y null: of x[i].
double sum_elements(const float* x, const float* y, std::int64_t count) {
    const DoubleTag doubles;
    const auto step = static_cast<std::int64_t>(hn::Lanes(doubles));
    const auto term = [&](std::int64_t i, auto lanes) HWY_ATTR {
        const auto a = hn::PromoteTo(doubles, load_lanes(HalfFloatTag(), x + i, lanes));
        return y == nullptr
                   ? a
                   : hn::Mul(a, hn::PromoteTo(doubles, load_lanes(HalfFloatTag(), y + i, lanes)));
    };
    auto sum0 = hn::Zero(doubles);
    auto sum1 = sum0;
    auto sum2 = sum0;
    auto sum3 = sum0;
    std::int64_t i = 0;
    for (; i + 4 * step <= count; i += 4 * step) {
        sum0 = hn::Add(sum0, term(i, AllLanes{}));
        sum1 = hn::Add(sum1, term(i + step, AllLanes{}));
        sum2 = hn::Add(sum2, term(i + 2 * step, AllLanes{}));
        sum3 = hn::Add(sum3, term(i + 3 * step, AllLanes{}));
    }
    for (; i < count; i += step) {
        sum0 = i + step <= count ? hn::Add(sum0, term(i, AllLanes{}))
                                 : hn::Add(sum0, term(i, FirstLanes{count - i}));
    }
    const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    return hn::GetLane(hn::SumOfLanes(doubles, sum));
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(adamw_elements);
HWY_EXPORT(sum_elements);

namespace {

constexpr std::int64_t kBlockElems = 32768;

// out[0] = sum of x[i] * y[i]; y null: of x[i]
void sum_in_blocks(
    const Queue& queue, ConstTensor x, const float* y, Tensor out, Tensor workspace) {
    const auto* elements = x.as<float>();
    auto* sums = static_cast<std::byte*>(workspace.data());
    for_pieces(queue, x.num_elems(), kBlockElems, [&](std::int64_t begin, std::int64_t count) {
        const double sum = HWY_DYNAMIC_DISPATCH(sum_elements)(
            elements + begin, y != nullptr ? y + begin : nullptr, count);
        std::memcpy(sums + begin / kBlockElems * 8, &sum, sizeof(sum));
    });
    double total = 0;
    for (std::int64_t block = 0; block < ceil_div(x.num_elems(), kBlockElems); ++block) {
        double sum = 0;
        std::memcpy(&sum, sums + block * 8, sizeof(sum));
        total += sum;
    }
    std::memcpy(out.data(), &total, sizeof(total));
}

}  // namespace

void adamw(const Queue& queue, const AdamW& args) {
    const std::int64_t elems = args.parameters.num_elems();
    for_pieces(queue, elems, kBlockElems, [&](std::int64_t begin, std::int64_t count) {
        HWY_DYNAMIC_DISPATCH(adamw_elements)(args, begin, count);
    });
}

void sum_of_squares(const Queue& queue, ConstTensor x, Tensor out, Tensor workspace) {
    sum_in_blocks(queue, x, x.as<float>(), out, workspace);
}

void weighted_sum(
    const Queue& queue, ConstTensor x, ConstTensor weights, Tensor out, Tensor workspace) {
    sum_in_blocks(queue, x, weights ? weights.as<float>() : nullptr, out, workspace);
}

std::size_t sum_workspace_bytes(std::int64_t num_elems) {
    return static_cast<std::size_t>(ceil_div(num_elems, kBlockElems) * 8);
}

void fill_zero(const Queue& queue, Tensor x) {
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(x.dtype()));
    auto* bytes = static_cast<std::byte*>(x.data());
    if (x.is_contiguous()) {
        constexpr std::int64_t kPieceBytes = 1 << 18;
        for_pieces(queue, x.num_bytes(), kPieceBytes, [&](std::int64_t begin, std::int64_t count) {
            std::memset(bytes + begin, 0, static_cast<std::size_t>(count));
        });
        return;
    }
    const auto row_bytes = static_cast<std::size_t>(x.shape().row_elems() * elem_bytes);
    for_pieces(queue, x.dim(0), 64, [&](std::int64_t begin, std::int64_t count) {
        for (std::int64_t row = begin; row < begin + count; ++row) {
            std::memset(bytes + row * x.row_stride() * elem_bytes, 0, row_bytes);
        }
    });
}

}  // namespace dcp::kernels::cpu
#endif
