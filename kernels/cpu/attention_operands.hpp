// Operands of block products from rows of the tensors, in the layouts that BlockShape asks for.
// Everything is padded with zeros, so products may run over the padding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.hpp"
#include "kernels/cpu/attention_pack.hpp"
#include "kernels/cpu/attention_products.hpp"

namespace dcp::kernels::cpu {

// Hands out pieces of one piece of memory, 64-byte aligned. Starting from null it only measures.
class Scratch {
public:
    explicit Scratch(std::byte* base) : base_(base) {}
    // Bytes that `used_bytes()` of another Scratch need at an address of any alignment.
    static std::size_t with_alignment(std::size_t bytes) { return bytes + kAlignment; }
    static std::byte* aligned(void* base) {
        const auto address = reinterpret_cast<std::uintptr_t>(base);
        return static_cast<std::byte*>(base) + (kAlignment - address % kAlignment) % kAlignment;
    }

    template <class T>
    T* take(std::int64_t count) {
        std::byte* const at = base_ == nullptr ? nullptr : base_ + used_;
        used_ += (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment *
                 kAlignment;
        return reinterpret_cast<T*>(at);
    }
    std::size_t used_bytes() const { return used_; }

private:
    static constexpr std::size_t kAlignment = 64;

    std::byte* base_;
    std::size_t used_ = 0;
};

// Rows of one head: element (row, column) at base[row * stride + column].
template <class T>
struct HeadRows {
    const T* base = nullptr;
    std::int64_t stride = 0;

    HeadRows from(std::int64_t row) const { return {base + row * stride, stride}; }
};

template <class T>
class Operands {
public:
    Operands(const BlockShape& shape, int head_dim, Scratch& scratch)
        : shape_(shape), head_dim_(head_dim) {
        const int longest =
            shape.query_block > shape.key_block ? shape.query_block : shape.key_block;
        padded_ = scratch.take<T>(static_cast<std::int64_t>(longest) * shape.head_dim);
        paired_ =
            scratch.take<std::uint32_t>(static_cast<std::int64_t>(longest / 2) * shape.head_dim);
    }

    // As A: dst[padded_rows][Dp].
    void rows_left(HeadRows<T> src, int rows, int padded_rows, T* dst) const {
        copy_padded(src.base, src.stride, {rows, head_dim_, padded_rows, shape_.head_dim}, dst);
    }
    // As A: dst[Dp][key_block].
    void columns_left(HeadRows<T> src, int rows, T* dst) const {
        turn_round(src, rows, shape_.key_block, dst);
    }
    // As B with the rows as k: dst[padded_rows][Dp], or in pairs.
    void rows_right(HeadRows<T> src, int rows, int padded_rows, T* dst) const {
        if constexpr (sizeof(T) == 2) {
            if (shape_.pairs) {
                const HeadRows<T> from = padded(src, rows, padded_rows);
                pair_rows(from.base, from.stride, padded_rows, shape_.head_dim,
                          reinterpret_cast<std::uint32_t*>(dst), shape_.head_dim);
                return;
            }
        }
        rows_left(src, rows, padded_rows, dst);
    }
    // As B with the head dimension as k: dst[Dp][query_block], or in pairs.
    void columns_right(HeadRows<T> src, int rows, int padded_rows, T* dst) const {
        const int row_length = shape_.query_block;
        if (sizeof(T) == 2 && shape_.pairs) {
            const HeadRows<T> from = padded(src, rows, padded_rows);
            transpose_words(reinterpret_cast<const std::uint32_t*>(from.base), from.stride / 2,
                            padded_rows, shape_.head_dim / 2, reinterpret_cast<std::uint32_t*>(dst),
                            row_length);
            return;
        }
        turn_round(src, rows, row_length, dst);
    }

private:
    // The rows themselves where they need no padding. Pairs of bf16 columns are read as words, so
    // rows must start at even elements.
    HeadRows<T> padded(HeadRows<T> src, int rows, int padded_rows) const {
        const bool is_aligned =
            sizeof(T) == 4 ||
            (src.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(src.base) % 4 == 0);
        if (rows == padded_rows && head_dim_ == shape_.head_dim && is_aligned) {
            return src;
        }
        rows_left(src, rows, padded_rows, padded_);
        return {padded_, shape_.head_dim};
    }

    void turn_round(HeadRows<T> src, int rows, int row_length, T* dst) const {
        // Rows of pairs are turned round sixteen at a time.
        constexpr int kMultiple = sizeof(T) == 4 ? kLanes : 2 * kLanes;
        const int padded_rows = (shape_.pad(rows) + kMultiple - 1) / kMultiple * kMultiple;
        const HeadRows<T> from = padded(src, rows, padded_rows);
        const int columns = shape_.head_dim;
        auto* const words = reinterpret_cast<std::uint32_t*>(dst);
        if constexpr (sizeof(T) == 4) {
            transpose_words(reinterpret_cast<const std::uint32_t*>(from.base), from.stride,
                            padded_rows, columns, words, row_length);
        } else {
            pair_rows(from.base, from.stride, padded_rows, columns, paired_, columns);
            transpose_words(paired_, columns, padded_rows / 2, columns, words, row_length / 2);
        }
    }

    BlockShape shape_;
    int head_dim_;
    T* padded_;
    std::uint32_t* paired_;
};

}  // namespace dcp::kernels::cpu
