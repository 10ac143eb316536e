// How tokens lie in a file: little-endian integers of one of these types. In memory a token is
// always int32.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace dcp::data {

enum class TokenType : std::uint8_t { kUInt8, kInt8, kInt16, kUInt16, kInt32, kUInt32, kInt64 };

constexpr std::int64_t size_bytes(TokenType type) {
    switch (type) {
        case TokenType::kUInt8:
        case TokenType::kInt8:
            return 1;
        case TokenType::kInt16:
        case TokenType::kUInt16:
            return 2;
        case TokenType::kInt32:
        case TokenType::kUInt32:
            return 4;
        case TokenType::kInt64:
            return 8;
    }
    return 0;
}

constexpr std::string_view name(TokenType type) {
    switch (type) {
        case TokenType::kUInt8:
            return "uint8";
        case TokenType::kInt8:
            return "int8";
        case TokenType::kInt16:
            return "int16";
        case TokenType::kUInt16:
            return "uint16";
        case TokenType::kInt32:
            return "int32";
        case TokenType::kUInt32:
            return "uint32";
        case TokenType::kInt64:
            return "int64";
    }
    return "?";
}

// Calls action(T{}) with the C++ type of the elements.
template <class Action>
decltype(auto) with_token_type(TokenType type, Action&& action) {
    switch (type) {
        case TokenType::kUInt8:
            return action(std::uint8_t{});
        case TokenType::kInt8:
            return action(std::int8_t{});
        case TokenType::kInt16:
            return action(std::int16_t{});
        case TokenType::kUInt16:
            return action(std::uint16_t{});
        case TokenType::kUInt32:
            return action(std::uint32_t{});
        case TokenType::kInt64:
            return action(std::int64_t{});
        case TokenType::kInt32:
            break;
    }
    return action(std::int32_t{});
}

}  // namespace dcp::data
