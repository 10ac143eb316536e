#include "core/base/tensor.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp {

Shape::Shape(std::initializer_list<std::int64_t> dims) {
    if (dims.size() > static_cast<std::size_t>(kMaxDims)) {
        throw ShapeError(
            fmt::format("a shape has at most {} dimensions, not {}", kMaxDims, dims.size()));
    }
    for (const std::int64_t dim : dims) {
        if (dim < 0) {
            throw ShapeError(
                fmt::format("dimension {} of a shape is negative: {}", num_dims_, dim));
        }
        dims_[static_cast<std::size_t>(num_dims_++)] = dim;
    }
}

std::int64_t Shape::num_elems() const {
    std::int64_t product = 1;
    for (int dim = 0; dim < num_dims_; ++dim) {
        product *= (*this)[dim];
    }
    return product;
}

std::int64_t Shape::row_elems() const {
    std::int64_t product = 1;
    for (int dim = 1; dim < num_dims_; ++dim) {
        product *= (*this)[dim];
    }
    return product;
}

std::string Shape::to_string() const {
    return fmt::format("[{}]", fmt::join(dims_.begin(), dims_.begin() + num_dims_, ", "));
}

namespace {

template <class Pointer>
Pointer advance(Pointer data, std::int64_t elems, DType dtype) {
    using Byte =
        std::conditional_t<std::is_same_v<Pointer, const void*>, const std::byte, std::byte>;
    return data == nullptr
               ? data
               : static_cast<Byte*>(data) + elems * static_cast<std::int64_t>(size_bytes(dtype));
}

}  // namespace

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::rows(std::int64_t begin, std::int64_t count) const {
    if (shape_.num_dims() == 0 || begin < 0 || count < 0 || begin + count > shape_[0]) {
        throw ShapeError(
            fmt::format("rows [{}, {}) of a tensor {}", begin, begin + count, shape_.to_string()));
    }
    Shape shape = shape_;
    switch (shape_.num_dims()) {
        case 1:
            shape = {count};
            break;
        case 2:
            shape = {count, shape_[1]};
            break;
        case 3:
            shape = {count, shape_[1], shape_[2]};
            break;
        default:
            shape = {count, shape_[1], shape_[2], shape_[3]};
            break;
    }
    return {advance(data_, begin * row_stride_, dtype_), dtype_, shape, row_stride_};
}

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::columns(std::int64_t begin, std::int64_t count) const {
    if (shape_.num_dims() != 2 || begin < 0 || count < 0 || begin + count > shape_[1]) {
        throw ShapeError(fmt::format("columns [{}, {}) of a tensor {}", begin, begin + count,
                                     shape_.to_string()));
    }
    return {advance(data_, begin, dtype_), dtype_, Shape{shape_[0], count}, row_stride_};
}

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::reshaped(Shape shape) const {
    if (shape.num_elems() != num_elems()) {
        throw ShapeError(
            fmt::format("{} cannot be seen as {}", shape_.to_string(), shape.to_string()));
    }
    // A strided view keeps its rows: only the inner dimensions may be split or merged.
    const bool keeps_rows = shape.num_dims() > 0 && shape[0] == shape_[0];
    if (!is_contiguous() && !keeps_rows) {
        throw ShapeError(fmt::format("a strided view {} cannot be seen as {}", shape_.to_string(),
                                     shape.to_string()));
    }
    return {data_, dtype_, shape, keeps_rows ? row_stride_ : shape.row_elems()};
}

template <class Pointer>
void BasicTensor<Pointer>::require_dtype(DType wanted) const {
    if (dtype_ != wanted) {
        throw ShapeError(fmt::format("a tensor {} of {} is read as {}", shape_.to_string(),
                                     name(dtype_), name(wanted)));
    }
}

template class BasicTensor<void*>;
template class BasicTensor<const void*>;

}  // namespace dcp
