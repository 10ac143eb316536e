// Rearranging rows into the operands of block products, and back; vector code chosen at run time.
//
// `rows x columns` elements are read from `src`, whose rows are src_stride elements apart; nothing
// outside them is. Strides are in elements of the pointer's type.
#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"

namespace dcp::kernels::cpu {

// dst[padded_rows][padded_columns], zeros beyond rows and columns.
struct PaddedCopy {
    int rows;
    int columns;
    int padded_rows;
    int padded_columns;
};
void copy_padded(const float* src, std::int64_t src_stride, const PaddedCopy& shape, float* dst);
void copy_padded(const BFloat16* src,
                 std::int64_t src_stride,
                 const PaddedCopy& shape,
                 BFloat16* dst);

// dst[columns][dst_stride >= rows]: 32-bit words turned round. rows: a multiple of 16; columns: of
// 4.
void transpose_words(const std::uint32_t* src,
                     std::int64_t src_stride,
                     int rows,
                     int columns,
                     std::uint32_t* dst,
                     std::int64_t dst_stride);

// dst[rows/2][dst_stride >= columns]: word j of row i is (row 2i, row 2i+1) at column j, the lower
// row in the lower half. rows: a multiple of 2; columns: of 16.
void pair_rows(const BFloat16* src,
               std::int64_t src_stride,
               int rows,
               int columns,
               std::uint32_t* dst,
               std::int64_t dst_stride);

// dst[i][j] (+)= src[i][j] * factor * row_factor[i], rounded to dst's type. Rows of src are
// readable up to the next multiple of 16 columns.
struct ScaledRows {
    const float* src = nullptr;
    std::int64_t src_stride = 0;
    float factor = 1;
    const float* row_factor = nullptr;  // null: 1
    int rows = 0;
    int columns = 0;
    bool add = false;
};
void store_scaled(const ScaledRows& rows, float* dst, std::int64_t dst_stride);
void store_scaled(const ScaledRows& rows, BFloat16* dst, std::int64_t dst_stride);

// out[i] = sum over columns of a[i][j] * b[i][j].
void row_dots(const float* a,
              std::int64_t a_stride,
              const float* b,
              std::int64_t b_stride,
              int rows,
              int columns,
              float* out);
void row_dots(const BFloat16* a,
              std::int64_t a_stride,
              const BFloat16* b,
              std::int64_t b_stride,
              int rows,
              int columns,
              float* out);

}  // namespace dcp::kernels::cpu
