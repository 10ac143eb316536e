#include "core/base/crc32c.hpp"

#include <array>

namespace dcp {

namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;

// What eight steps of the shift register make of each byte.
constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1) ^ ((value & 1) != 0 ? kReflectedPolynomial : 0);
        }
        table[byte] = value;
    }
    return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
    std::uint32_t value = 0xFFFFFFFF;
    for (const char byte : bytes) {
        value = (value >> 8) ^ kTable[(value ^ static_cast<unsigned char>(byte)) & 0xFF];
    }
    return ~value;
}

}  // namespace dcp
