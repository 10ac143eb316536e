// Words of 32 bits are transposed 16 by 16: fp32 elements, or pairs of bf16 elements of two
// successive rows. Whole cache lines of 64 bytes are read and written, because the rows of a wide
// matrix are a power of two apart and would push each other out of the first-level cache.
#include "kernels/cpu/linear_transpose.hpp"

#include <cstdint>

#include "kernels/cpu/hwy_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_transpose.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class Element>
void transpose_scalar(Rows<const Element*> x,
                      Rows<Element*> y,
                      std::int64_t t_begin,
                      std::int64_t t_end,
                      std::int64_t m_begin,
                      std::int64_t m_end) {
    for (std::int64_t m = m_begin; m < m_end; ++m) {
        for (std::int64_t t = t_begin; t < t_end; ++t) {
            y[m][t] = x[t][m];
        }
    }
}

#if HWY_TARGET <= HWY_AVX3

using HalfTag = hn::ScalableTag<std::uint16_t>;
using WordVector = hn::Vec<WordTag>;
using PairTag = hn::ScalableTag<std::uint64_t>;

// Within each block of four words: words[i] gets word i of the four vectors.
HWY_INLINE void transpose_in_blocks(WordVector& a, WordVector& b, WordVector& c, WordVector& d) {
    const WordTag words;
    const PairTag pairs;
    const auto pair = [&](WordVector v) HWY_ATTR { return hn::BitCast(pairs, v); };
    const auto ab_low = pair(hn::InterleaveLower(words, a, b));
    const auto ab_high = pair(hn::InterleaveUpper(words, a, b));
    const auto cd_low = pair(hn::InterleaveLower(words, c, d));
    const auto cd_high = pair(hn::InterleaveUpper(words, c, d));
    a = hn::BitCast(words, hn::InterleaveLower(pairs, ab_low, cd_low));
    b = hn::BitCast(words, hn::InterleaveUpper(pairs, ab_low, cd_low));
    c = hn::BitCast(words, hn::InterleaveLower(pairs, ab_high, cd_high));
    d = hn::BitCast(words, hn::InterleaveUpper(pairs, ab_high, cd_high));
}

// As a matrix of 4 vectors by 4 blocks: a gets block 0 of each, b block 1, ...
HWY_INLINE void transpose_blocks(WordVector& a, WordVector& b, WordVector& c, WordVector& d) {
    const WordTag words;
    const auto ac_low = hn::ConcatLowerLower(words, c, a);
    const auto bd_low = hn::ConcatLowerLower(words, d, b);
    const auto ac_high = hn::ConcatUpperUpper(words, c, a);
    const auto bd_high = hn::ConcatUpperUpper(words, d, b);
    a = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(bd_low), ac_low);
    b = hn::OddEvenBlocks(bd_low, hn::SwapAdjacentBlocks(ac_low));
    c = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(bd_high), ac_high);
    d = hn::OddEvenBlocks(bd_high, hn::SwapAdjacentBlocks(ac_high));
}

// rows[4 g + i], block b: the four words of source row 4 g + i in columns 4 b .. 4 b + 3.
// Afterwards rows[4 b + i] holds column i of block b, all 16 source rows.
HWY_INLINE void transpose_16(WordVector (&rows)[16]) {
    for (int g = 0; g < 16; g += 4) {
        transpose_in_blocks(rows[g], rows[g + 1], rows[g + 2], rows[g + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        transpose_blocks(rows[i], rows[i + 4], rows[i + 8], rows[i + 12]);
    }
}

struct Step {
    std::int64_t t;
    std::int64_t m;
};

HWY_INLINE void transpose_square(Rows<const float*> x, Rows<float*> y, Step at) {
    WordVector rows[16];
    for (int i = 0; i < 16; ++i) {
        rows[i] = hn::BitCast(WordTag(), hn::LoadU(FloatTag(), x[at.t + i] + at.m));
    }
    transpose_16(rows);
    for (int i = 0; i < 4; ++i) {
        for (int b = 0; b < 4; ++b) {
            hn::StoreU(hn::BitCast(FloatTag(), rows[4 * b + i]), FloatTag(),
                       y[at.m + 4 * b + i] + at.t);
        }
    }
}

HWY_INLINE void transpose_square(Rows<const BFloat16*> x, Rows<BFloat16*> y, Step at) {
    const HalfTag halves;
    WordVector low[16];   // columns 0-3, 8-11, 16-19, 24-27
    WordVector high[16];  // columns 4-7, 12-15, ...
    for (int i = 0; i < 16; ++i) {
        const auto* even_row = reinterpret_cast<const std::uint16_t*>(x[at.t + 2 * i] + at.m);
        const auto* odd_row = reinterpret_cast<const std::uint16_t*>(x[at.t + 2 * i + 1] + at.m);
        const auto even = hn::LoadU(halves, even_row);
        const auto odd = hn::LoadU(halves, odd_row);
        low[i] = hn::BitCast(WordTag(), hn::InterleaveLower(halves, even, odd));
        high[i] = hn::BitCast(WordTag(), hn::InterleaveUpper(halves, even, odd));
    }
    transpose_16(low);
    transpose_16(high);
    for (int i = 0; i < 4; ++i) {
        for (int b = 0; b < 4; ++b) {
            auto* to_low = reinterpret_cast<std::uint32_t*>(y[at.m + 8 * b + i] + at.t);
            auto* to_high = reinterpret_cast<std::uint32_t*>(y[at.m + 8 * b + 4 + i] + at.t);
            hn::StoreU(low[4 * b + i], WordTag(), to_low);
            hn::StoreU(high[4 * b + i], WordTag(), to_high);
        }
    }
}

template <class Element>
void transpose_all(Rows<const Element*> x, Rows<Element*> y, std::int64_t T, std::int64_t M) {
    constexpr auto kSide = static_cast<std::int64_t>(64 / sizeof(Element));
    const std::int64_t whole_T = T / kSide * kSide;
    const std::int64_t whole_M = M / kSide * kSide;
    for (std::int64_t t = 0; t < whole_T; t += kSide) {
        for (std::int64_t m = 0; m < whole_M; m += kSide) {
            transpose_square(x, y, {t, m});
        }
    }
    transpose_scalar(x, y, whole_T, T, 0, whole_M);
    transpose_scalar(x, y, 0, T, whole_M, M);
}

#else

template <class Element>
void transpose_all(Rows<const Element*> x, Rows<Element*> y, std::int64_t T, std::int64_t M) {
    transpose_scalar(x, y, 0, T, 0, M);
}

#endif

void transpose(ConstTensor x, Tensor y) {
    if (x.dtype() == DType::kBFloat16) {
        transpose_all<BFloat16>(rows_of<BFloat16>(x), rows_of<BFloat16>(y), x.dim(0), x.dim(1));
    } else {
        transpose_all<float>(rows_of<float>(x), rows_of<float>(y), x.dim(0), x.dim(1));
    }
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(transpose);

void transpose_tile(ConstTensor x_TM, Tensor y_MT) {
    HWY_DYNAMIC_DISPATCH(transpose)(x_TM, y_MT);
}

}  // namespace dcp::kernels::cpu
#endif
