// Views of memory on some device: pointer, element type, shape. They own nothing and copy freely.
//
// Dimensions are row-major. Only the first may be strided (`row_stride`, in elements), so a view
// can be a column block of a wider matrix: the queries inside a fused query-key-value activation,
// one head of several. All inner dimensions are contiguous.
//
// Letters used for dimensions in names all over the code, and only for logical sizes, never for
// shards:
//   B sequences of a micro-batch   T packed tokens (the sum of their lengths)   C model width     F
//   feed-forward width   V vocabulary H query heads   G key/value heads   D head dimension   L
//   layers   N,K output and input features of a linear layer
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "core/base/dtype.hpp"

namespace dcp {

inline constexpr int kMaxDims = 4;

class Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<std::int64_t> dims);  // at most kMaxDims, none negative: ShapeError

    int num_dims() const { return num_dims_; }
    std::int64_t operator[](int dim) const { return dims_[static_cast<std::size_t>(dim)]; }
    std::int64_t num_elems() const;  // 1 without dimensions
    std::int64_t row_elems() const;  // elements of one index of dimension 0
    std::string to_string() const;   // "[8192, 256]"
    bool operator==(const Shape&) const = default;

private:
    std::array<std::int64_t, kMaxDims> dims_{};
    int num_dims_ = 0;
};

template <class Pointer>
class BasicTensor {
public:
    BasicTensor() = default;
    BasicTensor(Pointer data, DType dtype, Shape shape)
        : BasicTensor(data, dtype, shape, shape.row_elems()) {}
    BasicTensor(Pointer data, DType dtype, Shape shape, std::int64_t row_stride)
        : data_(data), dtype_(dtype), shape_(shape), row_stride_(row_stride) {}
    // A Tensor is a ConstTensor, never the other way round.
    template <class Other>
    requires(std::is_convertible_v<Other, Pointer> && !std::is_same_v<Other, Pointer>)
        BasicTensor(const BasicTensor<Other>& other)  // NOLINT(google-explicit-constructor)
        : BasicTensor(other.data(), other.dtype(), other.shape(), other.row_stride()) {}

    Pointer data() const { return data_; }
    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    std::int64_t dim(int index) const { return shape_[index]; }
    std::int64_t row_stride() const { return row_stride_; }
    std::int64_t num_elems() const { return shape_.num_elems(); }
    std::int64_t num_bytes() const {
        return num_elems() * static_cast<std::int64_t>(size_bytes(dtype_));
    }
    bool is_contiguous() const { return row_stride_ == shape_.row_elems() || shape_[0] <= 1; }
    explicit operator bool() const { return data_ != nullptr; }

    // Typed pointer to the first element; the element type must be the stored one (ShapeError).
    template <class T>
    auto as() const {
        using Element = std::conditional_t<std::is_same_v<Pointer, const void*>, const T, T>;
        require_dtype(kDTypeOf<T>);
        return static_cast<Element*>(data_);
    }

    // Rows [begin, begin + count) of dimension 0.
    BasicTensor rows(std::int64_t begin, std::int64_t count) const;
    // Elements [begin, begin + count) of every row, as a two-dimensional strided view.
    BasicTensor columns(std::int64_t begin, std::int64_t count) const;
    // The same elements of a contiguous tensor under another shape.
    BasicTensor reshaped(Shape shape) const;

private:
    void require_dtype(DType wanted) const;

    Pointer data_ = nullptr;
    DType dtype_ = DType::kFloat32;
    Shape shape_;
    std::int64_t row_stride_ = 0;
};

using Tensor = BasicTensor<void*>;
using ConstTensor = BasicTensor<const void*>;

extern template class BasicTensor<void*>;
extern template class BasicTensor<const void*>;

}  // namespace dcp
