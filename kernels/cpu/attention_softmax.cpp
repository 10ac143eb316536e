#include "kernels/cpu/attention_softmax.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/cpu/hwy_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_softmax.cpp"
// foreach_target.h comes first: it includes this file once for each target.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Words = hn::CappedTag<std::uint32_t, 16>;
using Ints = hn::CappedTag<std::int32_t, 16>;
using Halves = hn::Rebind<std::uint16_t, Words>;
constexpr Floats kFloats;
constexpr Words kWords;
constexpr Ints kInts;
constexpr Halves kHalves;
constexpr int kNumLanes = static_cast<int>(hn::MaxLanes(kFloats));
constexpr std::ptrdiff_t offset_of(int vec) {
    return std::ptrdiff_t{vec} * kNumLanes;
}
using FloatVec = hn::Vec<Floats>;
using WordVec = hn::Vec<Words>;

constexpr float kLowest = -1e30F;       // reference of a query that has seen no key yet
constexpr float kLargestExcess = 8.0F;  // see the header
constexpr float kLowestExponent = -120.0F;

HWY_INLINE FloatVec load(const float* from) {
    return hn::LoadU(kFloats, from);
}
HWY_INLINE void store(FloatVec vec, float* to) {
    hn::StoreU(vec, kFloats, to);
}

// Adding 1.5 * 2^23 leaves the nearest whole number in the low bits of the sum, from where it is
// shifted into the exponent. Max takes its second argument when one is NaN, so NaN stays.
HWY_INLINE FloatVec exp2(FloatVec x) {
    const auto magic = hn::Set(kFloats, 12582912.0F);
    x = hn::Max(hn::Set(kFloats, kLowestExponent), x);
    const auto shifted = hn::Add(x, magic);
    const auto f = hn::Sub(x, hn::Sub(shifted, magic));
    auto p = hn::Set(kFloats, 0.001326472731307149F);
    p = hn::MulAdd(p, f, hn::Set(kFloats, 0.009671512991189957F));
    p = hn::MulAdd(p, f, hn::Set(kFloats, 0.05550733581185341F));
    p = hn::MulAdd(p, f, hn::Set(kFloats, 0.24022242426872253F));
    p = hn::MulAdd(p, f, hn::Set(kFloats, 0.6931470036506653F));
    p = hn::MulAdd(p, f, hn::Set(kFloats, 1.0F));
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(kInts, shifted));
    return hn::BitCast(kFloats, hn::Add(hn::BitCast(kInts, p), exponent));
}

// To bf16, ties away from zero: the upper halves of the results are the rounded values.
HWY_INLINE WordVec rounded_halves(FloatVec x) {
    return hn::Add(hn::BitCast(kWords, x), hn::Set(kWords, 0x8000));
}
template <int kVecs>
HWY_INLINE void store_bf16(const FloatVec* x, BFloat16* to) {
    auto* const halves = reinterpret_cast<std::uint16_t*>(to);
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kVecs % 2 == 0) {
        const hn::Repartition<std::uint16_t, Words> both;
        for (int v = 0; v < kVecs; v += 2) {
            const auto first = hn::BitCast(both, rounded_halves(x[v]));
            const auto second = hn::BitCast(both, rounded_halves(x[v + 1]));
            hn::StoreU(hn::ConcatOdd(both, second, first), both, halves + offset_of(v));
        }
        return;
    }
#endif
    for (int v = 0; v < kVecs; v++) {
        hn::StoreU(hn::TruncateTo(kHalves, hn::ShiftRight<16>(rounded_halves(x[v]))), kHalves,
                   halves + offset_of(v));
    }
}
HWY_INLINE void store_pair(FloatVec lower, FloatVec upper, std::uint32_t* to) {
    const auto low = hn::ShiftRight<16>(rounded_halves(lower));
    const auto high = hn::And(rounded_halves(upper), hn::Set(kWords, 0xffff0000U));
    hn::StoreU(hn::Or(low, high), kWords, to);
}

struct Place {
    int key;  // even
    int lane;
    int row;  // row length

    std::ptrdiff_t at() const { return std::ptrdiff_t{key} * row + lane; }
};

// Two rows of an operand, kVecs vectors each.
template <int kVecs>
HWY_INLINE void store_rows(const BlockOperands<float>& to,
                           const Place& place,
                           const FloatVec* first,
                           const FloatVec* second) {
    for (int v = 0; v < kVecs; v++) {
        store(first[v], to.rows + place.at() + offset_of(v));
        store(second[v], to.rows + place.at() + place.row + offset_of(v));
    }
}
template <int kVecs>
HWY_INLINE void store_rows(const BlockOperands<BFloat16>& to,
                           const Place& place,
                           const FloatVec* first,
                           const FloatVec* second) {
    if (to.rows != nullptr) {
        store_bf16<kVecs>(first, to.rows + place.at());
        store_bf16<kVecs>(second, to.rows + place.at() + place.row);
    }
    if (to.pairs != nullptr) {
        std::uint32_t* pairs = to.pairs + std::ptrdiff_t{place.key / 2} * place.row + place.lane;
        for (int v = 0; v < kVecs; v++) {
            store_pair(first[v], second[v], pairs + offset_of(v));
        }
    }
}

// The lanes of vector v that see key j, given that not all do: lane >= j - diagonal.
HWY_INLINE hn::Mask<Floats> sees(const ScoreBlock& block, int key, int lane) {
    const std::int64_t first = std::min<std::int64_t>(key - block.diagonal - lane, 1 << 20);
    return hn::Ge(hn::Iota(kFloats, 0), hn::Set(kFloats, static_cast<float>(first)));
}
HWY_INLINE bool is_partial(const ScoreBlock& block, int key, int lane) {
    return key > lane + block.diagonal;
}

template <int kVecs>
HWY_INLINE void column_maxima(const ScoreBlock& block,
                              const float* scores,
                              int lane,
                              FloatVec* maxima) {
    const auto nothing = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
    for (int v = 0; v < kVecs; v++) {
        maxima[v] = nothing;
    }
    for (int key = 0; key < block.keys; key++) {
        const float* row = scores + std::ptrdiff_t{key} * block.row + lane;
        if (!is_partial(block, key, lane)) {
            for (int v = 0; v < kVecs; v++) {
                maxima[v] = hn::Max(maxima[v], load(row + offset_of(v)));
            }
            continue;
        }
        for (int v = 0; v < kVecs; v++) {
            const auto mask = sees(block, key, lane + v * kNumLanes);
            const auto score = hn::IfThenElse(mask, load(row + offset_of(v)), nothing);
            maxima[v] = hn::Max(maxima[v], score);
        }
    }
}

template <int kVecs>
HWY_INLINE void probabilities(const ScoreBlock& block,
                              const float* scores,
                              int key,
                              int lane,
                              const FloatVec* reference,
                              FloatVec* p) {
    if (key >= block.keys) {
        for (int v = 0; v < kVecs; v++) {
            p[v] = hn::Zero(kFloats);
        }
        return;
    }
    const auto scale = hn::Set(kFloats, block.log2_scale);
    const float* row = scores + std::ptrdiff_t{key} * block.row + lane;
    for (int v = 0; v < kVecs; v++) {
        p[v] = exp2(hn::MulSub(load(row + offset_of(v)), scale, reference[v]));
    }
    if (is_partial(block, key, lane)) {
        for (int v = 0; v < kVecs; v++) {
            p[v] = hn::IfThenElseZero(sees(block, key, lane + v * kNumLanes), p[v]);
        }
    }
}

// Moves the reference where a score exceeds it by too much; true if that happened.
template <int kVecs>
HWY_INLINE bool move_reference(const ScoreBlock& block,
                               const FloatVec* maxima,
                               bool is_first,
                               const SoftmaxState& state,
                               float* rescale) {
    const auto scale = hn::Set(kFloats, block.log2_scale);
    bool moved = false;
    for (int v = 0; v < kVecs; v++) {
        const std::ptrdiff_t at = offset_of(v);
        const auto top = hn::Mul(maxima[v], scale);
        if (is_first) {
            store(hn::Max(hn::Set(kFloats, kLowest), top), state.reference + at);
            store(hn::Zero(kFloats), state.sum + at);
            continue;
        }
        const auto old = load(state.reference + at);
        const auto exceeds = hn::Gt(top, hn::Add(old, hn::Set(kFloats, kLargestExcess)));
        auto factor = hn::Set(kFloats, 1.0F);
        if (!hn::AllFalse(kFloats, exceeds)) {
            const auto reference = hn::IfThenElse(exceeds, top, old);
            factor = exp2(hn::Sub(old, reference));
            store(reference, state.reference + at);
            store(hn::Mul(load(state.sum + at), factor), state.sum + at);
            moved = true;
        }
        store(factor, rescale + at);
    }
    return moved;
}

template <int kVecs, class T>
HWY_INLINE bool softmax_lanes(const ScoreBlock& block,
                              float* scores,
                              int lane,
                              bool is_first,
                              const SoftmaxState& all_lanes,
                              float* rescale,
                              const BlockOperands<T>& p) {
    const SoftmaxState state{all_lanes.reference + lane, all_lanes.sum + lane};
    FloatVec maxima[kVecs];
    column_maxima<kVecs>(block, scores, lane, maxima);
    const bool moved = move_reference<kVecs>(block, maxima, is_first, state, rescale + lane);

    FloatVec reference[kVecs];
    FloatVec sum[kVecs];
    for (int v = 0; v < kVecs; v++) {
        reference[v] = load(state.reference + offset_of(v));
        sum[v] = load(state.sum + offset_of(v));
    }
    for (int key = 0; key < block.padded_keys; key += 2) {
        FloatVec first[kVecs];
        FloatVec second[kVecs];
        probabilities<kVecs>(block, scores, key, lane, reference, first);
        probabilities<kVecs>(block, scores, key + 1, lane, reference, second);
        for (int v = 0; v < kVecs; v++) {
            sum[v] = hn::Add(sum[v], hn::Add(first[v], second[v]));
        }
        store_rows<kVecs>(p, Place{key, lane, block.row}, first, second);
    }
    for (int v = 0; v < kVecs; v++) {
        store(sum[v], state.sum + offset_of(v));
    }
    return moved;
}

// Vectors worked on at a time: enough independent work to hide the latency of each instruction, as
// many as fit the registers (32 where vectors have 16 lanes, else 16).
constexpr int kGroup = kNumLanes == 16 ? 4 : 2;

template <class T>
bool softmax(const ScoreBlock& block,
             float* scores,
             bool is_first,
             const SoftmaxState& state,
             float* rescale,
             const BlockOperands<T>& p) {
    bool moved = false;
    int lane = 0;
    for (; lane + kGroup * kNumLanes <= block.queries; lane += kGroup * kNumLanes) {
        moved |= softmax_lanes<kGroup>(block, scores, lane, is_first, state, rescale, p);
    }
    for (; lane + 2 * kNumLanes <= block.queries; lane += 2 * kNumLanes) {
        moved |= softmax_lanes<2>(block, scores, lane, is_first, state, rescale, p);
    }
    for (; lane < block.queries; lane += kNumLanes) {
        moved |= softmax_lanes<1>(block, scores, lane, is_first, state, rescale, p);
    }
    return moved;
}
bool softmax_fp32(const ScoreBlock& block,
                  float* scores,
                  bool is_first,
                  const SoftmaxState& state,
                  float* rescale,
                  const BlockOperands<float>& p) {
    return softmax(block, scores, is_first, state, rescale, p);
}
bool softmax_bf16(const ScoreBlock& block,
                  float* scores,
                  bool is_first,
                  const SoftmaxState& state,
                  float* rescale,
                  const BlockOperands<BFloat16>& p) {
    return softmax(block, scores, is_first, state, rescale, p);
}

template <int kVecs>
HWY_INLINE void score_gradients(const ScoreBlock& block,
                                const SoftmaxBackward& args,
                                int key,
                                int lane,
                                const FloatVec* lse2,
                                const FloatVec* delta,
                                FloatVec* p,
                                FloatVec* d_s) {
    probabilities<kVecs>(block, args.scores, key, lane, lse2, p);
    if (key >= block.keys) {
        for (int v = 0; v < kVecs; v++) {
            d_s[v] = hn::Zero(kFloats);
        }
        return;
    }
    const float* row = args.d_p + std::ptrdiff_t{key} * block.row + lane;
    for (int v = 0; v < kVecs; v++) {
        d_s[v] = hn::Mul(p[v], hn::Sub(load(row + offset_of(v)), delta[v]));
    }
}

template <int kVecs, class T>
HWY_INLINE void backward_lanes(const ScoreBlock& block,
                               const SoftmaxBackward& args,
                               int lane,
                               const BlockOperands<T>& p,
                               const BlockOperands<T>& d_s) {
    FloatVec lse2[kVecs];
    FloatVec delta[kVecs];
    for (int v = 0; v < kVecs; v++) {
        lse2[v] = load(args.lse2 + lane + offset_of(v));
        delta[v] = load(args.delta + lane + offset_of(v));
    }
    for (int key = 0; key < block.padded_keys; key += 2) {
        FloatVec p_first[kVecs];
        FloatVec p_second[kVecs];
        FloatVec d_s_first[kVecs];
        FloatVec d_s_second[kVecs];
        score_gradients<kVecs>(block, args, key, lane, lse2, delta, p_first, d_s_first);
        score_gradients<kVecs>(block, args, key + 1, lane, lse2, delta, p_second, d_s_second);
        const Place place{key, lane, block.row};
        store_rows<kVecs>(p, place, p_first, p_second);
        store_rows<kVecs>(d_s, place, d_s_first, d_s_second);
    }
}

template <class T>
void backward(const ScoreBlock& block,
              const SoftmaxBackward& args,
              const BlockOperands<T>& p,
              const BlockOperands<T>& d_s) {
    int lane = 0;
    for (; lane + kGroup * kNumLanes <= block.queries; lane += kGroup * kNumLanes) {
        backward_lanes<kGroup>(block, args, lane, p, d_s);
    }
    for (; lane + 2 * kNumLanes <= block.queries; lane += 2 * kNumLanes) {
        backward_lanes<2>(block, args, lane, p, d_s);
    }
    for (; lane < block.queries; lane += kNumLanes) {
        backward_lanes<1>(block, args, lane, p, d_s);
    }
}
void backward_fp32(const ScoreBlock& block,
                   const SoftmaxBackward& args,
                   const BlockOperands<float>& p,
                   const BlockOperands<float>& d_s) {
    backward(block, args, p, d_s);
}
void backward_bf16(const ScoreBlock& block,
                   const SoftmaxBackward& args,
                   const BlockOperands<BFloat16>& p,
                   const BlockOperands<BFloat16>& d_s) {
    backward(block, args, p, d_s);
}

void scale(float* x, int rows, int row, int lanes, const float* factor) {
    for (int i = 0; i < rows; i++) {
        for (int lane = 0; lane < lanes; lane += kNumLanes) {
            float* at = x + std::ptrdiff_t{i} * row + lane;
            store(hn::Mul(load(at), load(factor + lane)), at);
        }
    }
}

void finish(const SoftmaxState& state, int queries, float* inverse_sum, float* lse) {
    const auto ln2 = hn::Set(kFloats, 0.6931471805599453F);
    for (int lane = 0; lane < queries; lane += kNumLanes) {
        const auto sum = load(state.sum + lane);
        const auto log = hn::Log(kFloats, sum);
        store(hn::MulAdd(load(state.reference + lane), ln2, log), lse + lane);
        store(hn::Div(hn::Set(kFloats, 1.0F), sum), inverse_sum + lane);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace dcp::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(softmax_fp32);
HWY_EXPORT(softmax_bf16);
HWY_EXPORT(backward_fp32);
HWY_EXPORT(backward_bf16);
HWY_EXPORT(scale);
HWY_EXPORT(finish);

bool softmax_block(const ScoreBlock& block,
                   float* scores,
                   bool is_first,
                   const SoftmaxState& state,
                   float* rescale,
                   const BlockOperands<float>& p) {
    return HWY_DYNAMIC_DISPATCH(softmax_fp32)(block, scores, is_first, state, rescale, p);
}
bool softmax_block(const ScoreBlock& block,
                   float* scores,
                   bool is_first,
                   const SoftmaxState& state,
                   float* rescale,
                   const BlockOperands<BFloat16>& p) {
    return HWY_DYNAMIC_DISPATCH(softmax_bf16)(block, scores, is_first, state, rescale, p);
}

void scale_lanes(float* x, int rows, int row, int lanes, const float* factor) {
    HWY_DYNAMIC_DISPATCH(scale)(x, rows, row, lanes, factor);
}

void finish_softmax(const SoftmaxState& state, int queries, float* inverse_sum, float* lse) {
    HWY_DYNAMIC_DISPATCH(finish)(state, queries, inverse_sum, lse);
}

void softmax_block_backward(const ScoreBlock& block,
                            const SoftmaxBackward& args,
                            const BlockOperands<float>& p,
                            const BlockOperands<float>& d_s) {
    HWY_DYNAMIC_DISPATCH(backward_fp32)(block, args, p, d_s);
}
void softmax_block_backward(const ScoreBlock& block,
                            const SoftmaxBackward& args,
                            const BlockOperands<BFloat16>& p,
                            const BlockOperands<BFloat16>& d_s) {
    HWY_DYNAMIC_DISPATCH(backward_bf16)(block, args, p, d_s);
}

}  // namespace dcp::kernels::cpu
#endif
