#include "kernels/cpu/attention_pack.hpp"

#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that blocks of 16 rows fit every instruction set.
using Words = hn::CappedTag<std::uint32_t, 16>;
using Floats = hn::CappedTag<float, 16>;
using Halves = hn::Rebind<std::uint16_t, Words>;
constexpr Words kWords;
constexpr Floats kFloats;
constexpr Halves kHalves;
constexpr int kNumLanes = static_cast<int>(hn::MaxLanes(kWords));
using FloatVec = hn::Vec<Floats>;

const std::uint16_t* bits(const BFloat16* values) {
    return reinterpret_cast<const std::uint16_t*>(values);
}

void copy_bytes(const std::byte* src,
                std::size_t src_stride,
                const PaddedCopy& shape,
                std::size_t elem_bytes,
                std::byte* dst) {
    const hn::ScalableTag<std::uint8_t> d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t row_bytes = static_cast<std::size_t>(shape.columns) * elem_bytes;
    const std::size_t padded_bytes = static_cast<std::size_t>(shape.padded_columns) * elem_bytes;
    for (int row = 0; row < shape.rows; row++) {
        const auto* from = reinterpret_cast<const std::uint8_t*>(src);
        auto* to = reinterpret_cast<std::uint8_t*>(dst);
        std::size_t i = 0;
        for (; i + lanes <= row_bytes; i += lanes) {
            hn::StoreU(hn::LoadU(d, from + i), d, to + i);
        }
        if (i < row_bytes) {
            std::memcpy(to + i, from + i, row_bytes - i);
        }
        if (row_bytes < padded_bytes) {
            std::memset(to + row_bytes, 0, padded_bytes - row_bytes);
        }
        src += src_stride;
        dst += padded_bytes;
    }
    const int missing = shape.padded_rows - shape.rows;
    if (missing > 0) {
        std::memset(dst, 0, static_cast<std::size_t>(missing) * padded_bytes);
    }
}

#if HWY_TARGET == HWY_SCALAR
void transpose(const std::uint32_t* src,
               std::int64_t src_stride,
               int rows,
               int columns,
               std::uint32_t* dst,
               std::int64_t dst_stride) {
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++) {
            dst[column * dst_stride + row] = src[row * src_stride + column];
        }
    }
}
#else
// Lane 4b + j of the result is column j of row 4b: rows 0, 4, 8, ... side by side.
template <class D>
hn::Vec<D> load_every_fourth_row(D d, const std::uint32_t* src, std::int64_t stride) {
    if constexpr (hn::MaxLanes(D()) <= 4) {
        return hn::LoadU(d, src);
    } else {
        const hn::Half<D> half;
        constexpr auto kRows = static_cast<std::int64_t>(hn::MaxLanes(D()) / 2);
        return hn::Combine(d, load_every_fourth_row(half, src + kRows * stride, stride),
                           load_every_fourth_row(half, src, stride));
    }
}

// Blocks of 4 x 4 words are turned round inside the 128-bit parts of four vectors at a time.
void transpose(const std::uint32_t* src,
               std::int64_t src_stride,
               int rows,
               int columns,
               std::uint32_t* dst,
               std::int64_t dst_stride) {
    const hn::Repartition<std::uint64_t, Words> wide;
    for (int row = 0; row < rows; row += kNumLanes) {
        const std::uint32_t* from = src + row * src_stride;
        std::uint32_t* to = dst + row;
        for (int column = 0; column < columns; column += 4) {
            const auto r0 = load_every_fourth_row(kWords, from + column, src_stride);
            const auto r1 = load_every_fourth_row(kWords, from + src_stride + column, src_stride);
            const auto r2 =
                load_every_fourth_row(kWords, from + 2 * src_stride + column, src_stride);
            const auto r3 =
                load_every_fourth_row(kWords, from + 3 * src_stride + column, src_stride);
            const auto r01_low = hn::BitCast(wide, hn::InterleaveLower(kWords, r0, r1));
            const auto r01_high = hn::BitCast(wide, hn::InterleaveUpper(kWords, r0, r1));
            const auto r23_low = hn::BitCast(wide, hn::InterleaveLower(kWords, r2, r3));
            const auto r23_high = hn::BitCast(wide, hn::InterleaveUpper(kWords, r2, r3));
            const auto store = [&](auto vec, int j) HWY_ATTR {
                hn::StoreU(hn::BitCast(kWords, vec), kWords, to + (column + j) * dst_stride);
            };
            store(hn::InterleaveLower(wide, r01_low, r23_low), 0);
            store(hn::InterleaveUpper(wide, r01_low, r23_low), 1);
            store(hn::InterleaveLower(wide, r01_high, r23_high), 2);
            store(hn::InterleaveUpper(wide, r01_high, r23_high), 3);
        }
    }
}
#endif

void pair(const BFloat16* src,
          std::int64_t src_stride,
          int rows,
          int columns,
          std::uint32_t* dst,
          std::int64_t dst_stride) {
    for (int row = 0; row < rows; row += 2) {
        const std::uint16_t* even = bits(src) + row * src_stride;
        const std::uint16_t* odd = even + src_stride;
        for (int column = 0; column < columns; column += kNumLanes) {
            const auto low = hn::PromoteTo(kWords, hn::LoadU(kHalves, even + column));
            const auto high = hn::PromoteTo(kWords, hn::LoadU(kHalves, odd + column));
            hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), kWords, dst + column);
        }
        dst += dst_stride;
    }
}

FloatVec load(const float* from) {
    return hn::LoadU(kFloats, from);
}
FloatVec load(const BFloat16* from) {
    const auto words = hn::PromoteTo(kWords, hn::LoadU(kHalves, bits(from)));
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(words));
}
void store(FloatVec vec, float* to) {
    hn::StoreU(vec, kFloats, to);
}
// Rounds to nearest even.
void store(FloatVec vec, BFloat16* to) {
    const auto words = hn::BitCast(kWords, vec);
    const auto is_odd = hn::And(hn::ShiftRight<16>(words), hn::Set(kWords, 1));
    const auto rounded = hn::Add(words, hn::Add(is_odd, hn::Set(kWords, 0x7fff)));
    hn::StoreU(hn::TruncateTo(kHalves, hn::ShiftRight<16>(rounded)), kHalves,
               reinterpret_cast<std::uint16_t*>(to));
}

// The last, incomplete vector of a row, filled up with zeros.
template <class T>
FloatVec load_tail(const T* from, int count) {
    alignas(64) T buffer[kNumLanes] = {};
    std::memcpy(buffer, from, static_cast<std::size_t>(count) * sizeof(T));
    return load(buffer);
}

template <class T>
void store_rows(const ScaledRows& rows, T* dst, std::int64_t dst_stride) {
    for (int row = 0; row < rows.rows; row++) {
        const float* src = rows.src + row * rows.src_stride;
        T* out = dst + row * dst_stride;
        const float row_factor = rows.row_factor == nullptr ? 1.0F : rows.row_factor[row];
        const auto factor = hn::Set(kFloats, rows.factor * row_factor);
        int column = 0;
        for (; column + kNumLanes <= rows.columns; column += kNumLanes) {
            const auto old = rows.add ? load(out + column) : hn::Zero(kFloats);
            store(hn::MulAdd(load(src + column), factor, old), out + column);
        }
        if (column < rows.columns) {
            const int count = rows.columns - column;
            const auto old = rows.add ? load_tail(out + column, count) : hn::Zero(kFloats);
            alignas(64) T buffer[kNumLanes];
            store(hn::MulAdd(load(src + column), factor, old), buffer);
            std::memcpy(out + column, buffer, static_cast<std::size_t>(count) * sizeof(T));
        }
    }
}
void store_rows_fp32(const ScaledRows& rows, float* dst, std::int64_t dst_stride) {
    store_rows(rows, dst, dst_stride);
}
void store_rows_bf16(const ScaledRows& rows, BFloat16* dst, std::int64_t dst_stride) {
    store_rows(rows, dst, dst_stride);
}

template <class T>
void dots(const T* a,
          std::int64_t a_stride,
          const T* b,
          std::int64_t b_stride,
          int rows,
          int columns,
          float* out) {
    for (int row = 0; row < rows; row++) {
        const T* a_row = a + row * a_stride;
        const T* b_row = b + row * b_stride;
        auto sum = hn::Zero(kFloats);
        int column = 0;
        for (; column + kNumLanes <= columns; column += kNumLanes) {
            sum = hn::MulAdd(load(a_row + column), load(b_row + column), sum);
        }
        if (column < columns) {
            const int count = columns - column;
            sum =
                hn::MulAdd(load_tail(a_row + column, count), load_tail(b_row + column, count), sum);
        }
        out[row] = hn::GetLane(hn::SumOfLanes(kFloats, sum));
    }
}
void dots_fp32(const float* a,
               std::int64_t a_stride,
               const float* b,
               std::int64_t b_stride,
               int rows,
               int columns,
               float* out) {
    dots(a, a_stride, b, b_stride, rows, columns, out);
}
void dots_bf16(const BFloat16* a,
               std::int64_t a_stride,
               const BFloat16* b,
               std::int64_t b_stride,
               int rows,
               int columns,
               float* out) {
    dots(a, a_stride, b, b_stride, rows, columns, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace dcp::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(copy_bytes);
HWY_EXPORT(transpose);
HWY_EXPORT(pair);
HWY_EXPORT(store_rows_fp32);
HWY_EXPORT(store_rows_bf16);
HWY_EXPORT(dots_fp32);
HWY_EXPORT(dots_bf16);

void copy_padded(const float* src, std::int64_t src_stride, const PaddedCopy& shape, float* dst) {
    HWY_DYNAMIC_DISPATCH(copy_bytes)
    (reinterpret_cast<const std::byte*>(src), static_cast<std::size_t>(src_stride) * sizeof(float),
     shape, sizeof(float), reinterpret_cast<std::byte*>(dst));
}

void copy_padded(const BFloat16* src,
                 std::int64_t src_stride,
                 const PaddedCopy& shape,
                 BFloat16* dst) {
    HWY_DYNAMIC_DISPATCH(copy_bytes)
    (reinterpret_cast<const std::byte*>(src),
     static_cast<std::size_t>(src_stride) * sizeof(BFloat16), shape, sizeof(BFloat16),
     reinterpret_cast<std::byte*>(dst));
}

void transpose_words(const std::uint32_t* src,
                     std::int64_t src_stride,
                     int rows,
                     int columns,
                     std::uint32_t* dst,
                     std::int64_t dst_stride) {
    HWY_DYNAMIC_DISPATCH(transpose)(src, src_stride, rows, columns, dst, dst_stride);
}

void pair_rows(const BFloat16* src,
               std::int64_t src_stride,
               int rows,
               int columns,
               std::uint32_t* dst,
               std::int64_t dst_stride) {
    HWY_DYNAMIC_DISPATCH(pair)(src, src_stride, rows, columns, dst, dst_stride);
}

void store_scaled(const ScaledRows& rows, float* dst, std::int64_t dst_stride) {
    HWY_DYNAMIC_DISPATCH(store_rows_fp32)(rows, dst, dst_stride);
}

void store_scaled(const ScaledRows& rows, BFloat16* dst, std::int64_t dst_stride) {
    HWY_DYNAMIC_DISPATCH(store_rows_bf16)(rows, dst, dst_stride);
}

void row_dots(const float* a,
              std::int64_t a_stride,
              const float* b,
              std::int64_t b_stride,
              int rows,
              int columns,
              float* out) {
    HWY_DYNAMIC_DISPATCH(dots_fp32)(a, a_stride, b, b_stride, rows, columns, out);
}

void row_dots(const BFloat16* a,
              std::int64_t a_stride,
              const BFloat16* b,
              std::int64_t b_stride,
              int rows,
              int columns,
              float* out) {
    HWY_DYNAMIC_DISPATCH(dots_bf16)(a, a_stride, b, b_stride, rows, columns, out);
}

}  // namespace dcp::kernels::cpu
#endif
