// What the vector loops over rows share: loads and stores that hide whether an element is fp32 or
// bf16, sums over a row, and exp. Compiled once for every instruction set, so it has Highway's kind
// of include guard.
//
// Nothing past the end of a row is ever read or written: the last, incomplete vector of a row is
// loaded with zeros in the lanes that do not exist. Every function that a loop calls takes `lanes`,
// which is AllLanes or FirstLanes, so that the body of a loop is written once.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"

#include "core/base/dtype.hpp"
#include "core/base/tensor.hpp"

#if defined(DCP_KERNELS_CPU_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DCP_KERNELS_CPU_VECTORS_INL
#undef DCP_KERNELS_CPU_VECTORS_INL
#else
#define DCP_KERNELS_CPU_VECTORS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using HalfWordTag = hn::Rebind<std::uint16_t, FloatTag>;

HWY_INLINE std::int64_t num_lanes() {
    return static_cast<std::int64_t>(hn::Lanes(FloatTag()));
}
HWY_INLINE FloatVector splat(float value) {
    return hn::Set(FloatTag(), value);
}

struct AllLanes {};
struct FirstLanes {
    std::int64_t count;
};

// Lanes that do not exist become zero.
HWY_INLINE FloatVector keep(FloatVector v, AllLanes /*lanes*/) {
    return v;
}
HWY_INLINE FloatVector keep(FloatVector v, FirstLanes lanes) {
    return hn::IfThenElseZero(hn::FirstN(FloatTag(), static_cast<std::size_t>(lanes.count)), v);
}

// A pointer whose element type is known at run time only, for mixed operands.
template <class Byte>
struct AnyElements {
    Byte* data;
    bool is_bf16;
    AnyElements operator+(std::int64_t elems) const {
        return {data + elems * (is_bf16 ? 2 : 4), is_bf16};
    }
};

template <class Tag, class Lane>
HWY_INLINE hn::Vec<Tag> load_lanes(Tag tag, const Lane* from, AllLanes /*lanes*/) {
    return hn::LoadU(tag, from);
}
template <class Tag, class Lane>
HWY_INLINE hn::Vec<Tag> load_lanes(Tag tag, const Lane* from, FirstLanes lanes) {
#if HWY_TARGET <= HWY_AVX3
    return hn::MaskedLoad(hn::FirstN(tag, static_cast<std::size_t>(lanes.count)), tag, from);
#else
    // Masked loads of older instruction sets may touch what the mask leaves out.
    HWY_ALIGN Lane all[hn::MaxLanes(Tag())] = {};
    std::memcpy(all, from, static_cast<std::size_t>(lanes.count) * sizeof(Lane));
    return hn::Load(tag, all);
#endif
}
template <class Tag, class Lane>
HWY_INLINE void store_lanes(hn::Vec<Tag> v, Tag tag, Lane* to, AllLanes /*lanes*/) {
    hn::StoreU(v, tag, to);
}
template <class Tag, class Lane>
HWY_INLINE void store_lanes(hn::Vec<Tag> v, Tag tag, Lane* to, FirstLanes lanes) {
#if HWY_TARGET <= HWY_AVX3
    hn::BlendedStore(v, hn::FirstN(tag, static_cast<std::size_t>(lanes.count)), tag, to);
#else
    HWY_ALIGN Lane all[hn::MaxLanes(Tag())];
    hn::Store(v, tag, all);
    std::memcpy(to, all, static_cast<std::size_t>(lanes.count) * sizeof(Lane));
#endif
}

template <class Lanes>
HWY_INLINE FloatVector load(const float* from, Lanes lanes) {
    return load_lanes(FloatTag(), from, lanes);
}
template <class Lanes>
HWY_INLINE FloatVector load(const BFloat16* from, Lanes lanes) {
    const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
    const auto words = hn::PromoteTo(WordTag(), load_lanes(HalfWordTag(), bits, lanes));
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(words));
}
template <class Byte, class Lanes>
HWY_INLINE FloatVector load(AnyElements<Byte> from, Lanes lanes) {
    return from.is_bf16 ? load(reinterpret_cast<const BFloat16*>(from.data), lanes)
                        : load(reinterpret_cast<const float*>(from.data), lanes);
}

template <class Lanes>
HWY_INLINE void store(FloatVector v, float* to, Lanes lanes) {
    store_lanes(v, FloatTag(), to, lanes);
}
// To nearest even, NaN to quiet NaN: the same bits as BFloat16(float).
template <class Lanes>
HWY_INLINE void store(FloatVector v, BFloat16* to, Lanes lanes) {
    const WordTag words;
    const auto bits = hn::BitCast(words, v);
    const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
    const auto rounded = hn::Add(bits, hn::Add(is_odd, hn::Set(words, 0x7fffU)));
    const auto is_nan = hn::RebindMask(words, hn::IsNaN(v));
    const auto quiet = hn::Or(bits, hn::Set(words, 0x400000U));
    const auto upper = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
    store_lanes(hn::TruncateTo(HalfWordTag(), upper), HalfWordTag(),
                reinterpret_cast<std::uint16_t*>(to), lanes);
}
template <class Lanes>
HWY_INLINE void store(FloatVector v, AnyElements<std::byte> to, Lanes lanes) {
    if (to.is_bf16) {
        store(v, reinterpret_cast<BFloat16*>(to.data), lanes);
    } else {
        store(v, reinterpret_cast<float*>(to.data), lanes);
    }
}

// body(column, lanes) for all columns, a vector at a time.
template <class Body>
HWY_INLINE void for_columns(std::int64_t columns, Body body) {
    std::int64_t column = 0;
    for (; column + num_lanes() <= columns; column += num_lanes()) {
        body(column, AllLanes{});
    }
    if (column < columns) {
        body(column, FirstLanes{columns - column});
    }
}

// kTotals sums over the columns: term(column, lanes, sums) adds what these columns contribute to
// sums[0 .. kTotals). Four independent sums hide the latency of an addition and keep the rounding
// error small; their order depends on the number of columns alone.
template <int kTotals, class Term>
HWY_INLINE void sum_columns(std::int64_t columns, float (&totals)[kTotals], Term term) {
    FloatVector sums[4][kTotals];
    for (auto& part : sums) {
        for (auto& sum : part) {
            sum = hn::Zero(FloatTag());
        }
    }
    const std::int64_t step = num_lanes();
    std::int64_t column = 0;
    for (; column + 4 * step <= columns; column += 4 * step) {
        term(column, AllLanes{}, sums[0]);
        term(column + step, AllLanes{}, sums[1]);
        term(column + 2 * step, AllLanes{}, sums[2]);
        term(column + 3 * step, AllLanes{}, sums[3]);
    }
    for (; column + step <= columns; column += step) {
        term(column, AllLanes{}, sums[0]);
    }
    if (column < columns) {
        term(column, FirstLanes{columns - column}, sums[1]);
    }
    for (int total = 0; total < kTotals; ++total) {
        const auto sum = hn::Add(hn::Add(sums[0][total], sums[1][total]),
                                 hn::Add(sums[2][total], sums[3][total]));
        totals[total] = hn::GetLane(hn::SumOfLanes(FloatTag(), sum));
    }
}

// NaN stays NaN.
HWY_INLINE FloatVector clamp(FloatVector x, FloatVector lowest, FloatVector highest) {
#if HWY_TARGET == HWY_SCALAR
    const auto from_below = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
    return hn::IfThenElse(hn::Gt(from_below, highest), highest, from_below);
#else
    // Min and Max of x86 return their second operand when one is NaN.
    return hn::Max(lowest, hn::Min(highest, x));
#endif
}

// exp(x) to 2 units in the last place for x in [-87.3, 88.3], the value at the nearer end for x
// outside, NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln(2)/2; exp(r) = 1 + r + r^2 q(r), q interpolated at the Chebyshev
// nodes (relative error 1e-8). ln 2 is split so that n times its upper part is exact. Adding 1.5 *
// 2^23 + 127 rounds to an integer and leaves n + 127 in the low bits of the sum, which, shifted,
// are the bits of 2^n; the range of x keeps its exponent normal.
inline constexpr float kExp[5] = {0.5F, 0.166665763F, 0.0416665561F, 0.00836320315F,
                                  0.00139262131F};
inline constexpr float kLn2Upper = 0.69140625F;
inline constexpr float kLn2Lower = 0.0017409306F;
inline constexpr float kRoundToInteger = 12582912.0F + 127.0F;
inline constexpr float kLowestExponent = -87.3F;
inline constexpr float kHighestExponent = 88.3F;

HWY_INLINE FloatVector exp_in_range(FloatVector x) {
    const auto clamped = clamp(x, splat(kLowestExponent), splat(kHighestExponent));
    const auto rounded = hn::MulAdd(clamped, splat(1.44269504F), splat(kRoundToInteger));
    const auto n = hn::Sub(rounded, splat(kRoundToInteger));
    const auto r = hn::NegMulAdd(n, splat(kLn2Lower), hn::NegMulAdd(n, splat(kLn2Upper), clamped));
    const auto r2 = hn::Mul(r, r);
    const auto low = hn::MulAdd(r, splat(kExp[1]), splat(kExp[0]));
    const auto high = hn::MulAdd(r, splat(kExp[3]), splat(kExp[2]));
    const auto q = hn::MulAdd(r2, hn::MulAdd(r2, splat(kExp[4]), high), low);
    const auto exp_r = hn::Add(hn::MulAdd(r2, q, r), splat(1));
    const auto power = hn::ShiftLeft<23>(hn::BitCast(WordTag(), rounded));
    return hn::Mul(exp_r, hn::BitCast(FloatTag(), power));
}

// The same, and 0 for x below the range: minus infinity too.
HWY_INLINE FloatVector exp(FloatVector x) {
    return hn::IfThenZeroElse(hn::Lt(x, splat(kLowestExponent)), exp_in_range(x));
}

// The rows of a two-dimensional view.
template <class Pointer>
struct Rows {
    Pointer first;
    std::int64_t stride;
    HWY_INLINE Pointer operator[](std::int64_t row) const { return first + row * stride; }
};

template <class Element>
HWY_INLINE Rows<const Element*> rows_of(const ConstTensor& tensor) {
    return {static_cast<const Element*>(tensor.data()), tensor.row_stride()};
}
template <class Element>
HWY_INLINE Rows<Element*> rows_of(const Tensor& tensor) {
    return {static_cast<Element*>(tensor.data()), tensor.row_stride()};
}
HWY_INLINE Rows<AnyElements<const std::byte>> any_rows_of(const ConstTensor& tensor) {
    const auto* first = static_cast<const std::byte*>(tensor.data());
    return {{first, tensor.dtype() == DType::kBFloat16}, tensor.row_stride()};
}
HWY_INLINE Rows<AnyElements<std::byte>> any_rows_of(const Tensor& tensor) {
    auto* first = static_cast<std::byte*>(tensor.data());
    return {{first, tensor.dtype() == DType::kBFloat16}, tensor.row_stride()};
}

// Calls kernel(Rows...) for the tensors: compiled for all fp32, for all bf16, and once more for any
// mixture, where every load tests the type (a branch that is always predicted).
template <class Kernel, class... Tensors>
HWY_INLINE void with_rows(Kernel kernel, const Tensors&... tensors) {
    if (((tensors.dtype() == DType::kFloat32) && ...)) {
        kernel(rows_of<float>(tensors)...);
    } else if (((tensors.dtype() == DType::kBFloat16) && ...)) {
        kernel(rows_of<BFloat16>(tensors)...);
    } else {
        kernel(any_rows_of(tensors)...);
    }
}

}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
