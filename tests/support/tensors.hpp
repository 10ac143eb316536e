// Tensors that tests own: filled with reproducible random numbers, with NaN (so that an element
// that is not written shows), or with given values. Memory before, after and, in strided tensors,
// between the rows holds a guard pattern that guards_intact() looks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/tensor.hpp"

namespace dcp::test {

using Values = std::vector<double>;

class TestTensor {
public:
    // Bytes of all elements are 0xff: NaN in fp32 and bf16, -1 in int32. row_stride in elements, 0:
    // contiguous.
    TestTensor(DType dtype, const Shape& shape, std::int64_t row_stride = 0);

    Tensor tensor() { return view_in(bytes_.data()); }
    ConstTensor tensor() const { return view_in(const_cast<std::byte*>(bytes_.data())); }
    operator Tensor() { return tensor(); }             // NOLINT(google-explicit-constructor)
    operator ConstTensor() const { return tensor(); }  // NOLINT(google-explicit-constructor)

    const Shape& shape() const { return shape_; }
    bool guards_intact() const;
    Values values() const;  // in order of the logical elements
    void set(const Values& values);
    void set(std::int64_t index, double value);

private:
    Tensor view_in(std::byte* memory) const;
    bool is_element(std::size_t byte) const;

    DType dtype_;
    Shape shape_;
    std::int64_t row_stride_;
    std::size_t first_byte_ = 0;  // of the first element, 64-byte aligned in memory
    std::vector<std::byte> bytes_;

public:
    // Moving keeps the memory; a copy would lose the alignment.
    TestTensor(TestTensor&&) noexcept = default;
    TestTensor& operator=(TestTensor&&) noexcept = default;
    TestTensor(const TestTensor&) = delete;
    TestTensor& operator=(const TestTensor&) = delete;
    ~TestTensor() = default;
};

// Normal numbers times `scale`, plus `mean`; rounded to the type.
TestTensor random_tensor(DType dtype,
                         const Shape& shape,
                         std::uint64_t seed,
                         double scale = 1,
                         double mean = 0,
                         std::int64_t row_stride = 0);
TestTensor nan_tensor(DType dtype, const Shape& shape, std::int64_t row_stride = 0);
TestTensor value_tensor(DType dtype, const Shape& shape, const Values& values);
TestTensor int_tensor(const std::vector<std::int32_t>& values);
TestTensor byte_tensor(std::size_t bytes);  // workspaces

// The elements of any view, as doubles.
Values values_of(const ConstTensor& tensor);
// The same bits in every element? NaN equals itself here.
bool same_bits(const ConstTensor& a, const ConstTensor& b);

}  // namespace dcp::test
