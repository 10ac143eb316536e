// CUDA's bfloat16 as far as kernels use it: storage, and conversion with rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {  // NOLINT(bugprone-reserved-identifier): CUDA's name
    std::uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// As cvt.rn.bf16.f32: every NaN becomes 0x7fff.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) {
        return {0x7fff};
    }
    return {static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16)};
}
