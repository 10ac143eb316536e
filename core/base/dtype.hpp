// Element types of tensors, and the one storage type that C++20 lacks: bfloat16.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace dcp {

enum class DType : std::uint8_t { kFloat32, kBFloat16, kInt32, kUInt8 };

constexpr std::size_t size_bytes(DType dtype) {
    switch (dtype) {
        case DType::kFloat32:
        case DType::kInt32:
            return 4;
        case DType::kBFloat16:
            return 2;
        case DType::kUInt8:
            return 1;
    }
    return 0;
}

constexpr std::string_view name(DType dtype) {
    switch (dtype) {
        case DType::kFloat32:
            return "fp32";
        case DType::kBFloat16:
            return "bf16";
        case DType::kInt32:
            return "int32";
        case DType::kUInt8:
            return "uint8";
    }
    return "?";
}

// Distance from 1 to the next number: rounding to nearest is off by at most half of it, relatively.
constexpr double epsilon(DType dtype) {
    return dtype == DType::kBFloat16 ? 1.0 / 128
                                     : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// The upper half of an IEEE float. Arithmetic is done in float; this only stores. Rounds to nearest
// even; NaN stays NaN.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    explicit constexpr BFloat16(float value) {
        const auto word = std::bit_cast<std::uint32_t>(value);
        const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
        bits = is_nan ? static_cast<std::uint16_t>((word >> 16) | 0x40U)
                      : static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
    }
    explicit constexpr operator float() const {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
};

template <class T>
inline constexpr DType kDTypeOf = DType::kUInt8;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::kInt32;

}  // namespace dcp
