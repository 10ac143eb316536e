#include "tests/support/tensors.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"

namespace dcp::test {

namespace {

constexpr std::byte kGuard{0xA5};
constexpr std::byte kUnwritten{0xFF};
constexpr std::size_t kGuardBytes = 256;
constexpr std::size_t kAlignment = 64;

double read(const std::byte* at, DType dtype) {
    const auto as = [at](auto value) {
        std::memcpy(&value, at, sizeof(value));
        return value;
    };
    switch (dtype) {
        case DType::kFloat32:
            return static_cast<double>(as(float{}));
        case DType::kBFloat16:
            return static_cast<double>(static_cast<float>(as(BFloat16{})));
        case DType::kInt32:
            return static_cast<double>(as(std::int32_t{}));
        case DType::kUInt8:
            return static_cast<double>(as(std::uint8_t{}));
    }
    return 0;
}

void write(double value, std::byte* at, DType dtype) {
    const auto put = [at](auto stored) { std::memcpy(at, &stored, sizeof(stored)); };
    switch (dtype) {
        case DType::kFloat32:
            return put(static_cast<float>(value));
        case DType::kBFloat16:
            return put(BFloat16(static_cast<float>(value)));
        case DType::kInt32:
            return put(static_cast<std::int32_t>(value));
        case DType::kUInt8:
            return put(static_cast<std::uint8_t>(value));
    }
}

// Element `index` of a view, counted row after row.
template <class Pointer>
auto* element_at(const BasicTensor<Pointer>& tensor, std::int64_t index) {
    using Byte =
        std::conditional_t<std::is_same_v<Pointer, const void*>, const std::byte, std::byte>;
    const std::int64_t columns = tensor.shape().row_elems();
    const std::int64_t elems = index / columns * tensor.row_stride() + index % columns;
    return static_cast<Byte*>(tensor.data()) +
           elems * static_cast<std::int64_t>(size_bytes(tensor.dtype()));
}

}  // namespace

TestTensor::TestTensor(DType dtype, const Shape& shape, std::int64_t row_stride)
    : dtype_(dtype), shape_(shape), row_stride_(row_stride > 0 ? row_stride : shape.row_elems()) {
    const std::int64_t rows = shape.num_dims() > 0 ? shape[0] : 1;
    const std::int64_t elems =
        shape.num_elems() == 0 ? 0 : (rows - 1) * row_stride_ + shape.row_elems();
    const std::size_t used_bytes = static_cast<std::size_t>(elems) * size_bytes(dtype);
    bytes_.assign(used_bytes + 2 * kGuardBytes + kAlignment, kGuard);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data()) + kGuardBytes;
    first_byte_ = kGuardBytes + (kAlignment - address % kAlignment) % kAlignment;
    for (std::int64_t row = 0; row < rows && elems > 0; ++row) {
        const auto begin = static_cast<std::size_t>(row * row_stride_) * size_bytes(dtype);
        std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(first_byte_ + begin),
                    static_cast<std::size_t>(shape.row_elems()) * size_bytes(dtype), kUnwritten);
    }
}

Tensor TestTensor::view_in(std::byte* memory) const {
    return {memory + first_byte_, dtype_, shape_, row_stride_};
}

bool TestTensor::is_element(std::size_t byte) const {
    if (byte < first_byte_ || shape_.num_elems() == 0) {
        return false;
    }
    const std::size_t elem = (byte - first_byte_) / size_bytes(dtype_);
    const auto stride = static_cast<std::size_t>(row_stride_);
    const auto rows = static_cast<std::size_t>(shape_.num_dims() > 0 ? shape_[0] : 1);
    return elem / stride < rows && elem % stride < static_cast<std::size_t>(shape_.row_elems());
}

bool TestTensor::guards_intact() const {
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
        if (bytes_[byte] != kGuard && !is_element(byte)) {
            return false;
        }
    }
    return true;
}

Values TestTensor::values() const {
    return values_of(tensor());
}

void TestTensor::set(const Values& values) {
    if (static_cast<std::int64_t>(values.size()) != shape_.num_elems()) {
        throw ShapeError("a test tensor is set to another number of values than it has");
    }
    for (std::size_t index = 0; index < values.size(); ++index) {
        set(static_cast<std::int64_t>(index), values[index]);
    }
}

void TestTensor::set(std::int64_t index, double value) {
    write(value, element_at(tensor(), index), dtype_);
}

TestTensor random_tensor(DType dtype,
                         const Shape& shape,
                         std::uint64_t seed,
                         double scale,
                         double mean,
                         std::int64_t row_stride) {
    TestTensor made(dtype, shape, row_stride);
    const CounterRng rng(seed, "test", 0);
    for (std::int64_t index = 0; index < shape.num_elems(); ++index) {
        made.set(index, mean + scale * rng.normal(static_cast<std::uint64_t>(index)));
    }
    return made;
}

TestTensor nan_tensor(DType dtype, const Shape& shape, std::int64_t row_stride) {
    return {dtype, shape, row_stride};
}

TestTensor value_tensor(DType dtype, const Shape& shape, const Values& values) {
    TestTensor made(dtype, shape);
    made.set(values);
    return made;
}

TestTensor int_tensor(const std::vector<std::int32_t>& values) {
    TestTensor made(DType::kInt32, {static_cast<std::int64_t>(values.size())});
    made.set(Values(values.begin(), values.end()));
    return made;
}

TestTensor byte_tensor(std::size_t bytes) {
    return {DType::kUInt8, {static_cast<std::int64_t>(bytes)}};
}

Values values_of(const ConstTensor& tensor) {
    Values values(static_cast<std::size_t>(tensor.num_elems()));
    for (std::size_t index = 0; index < values.size(); ++index) {
        values[index] = read(element_at(tensor, static_cast<std::int64_t>(index)), tensor.dtype());
    }
    return values;
}

bool same_bits(const ConstTensor& a, const ConstTensor& b) {
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
        return false;
    }
    for (std::int64_t index = 0; index < a.num_elems(); ++index) {
        if (std::memcmp(element_at(a, index), element_at(b, index), size_bytes(a.dtype())) != 0) {
            return false;
        }
    }
    return true;
}

}  // namespace dcp::test
