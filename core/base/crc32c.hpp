// CRC-32C (Castagnoli): polynomial 0x1EDC6F41, bits reflected, start and end inverted.
#pragma once

#include <cstdint>
#include <string_view>

namespace dcp {

std::uint32_t crc32c(std::string_view bytes);  // 0xE3069283 of "123456789"

}  // namespace dcp
