// Numbers for people: bytes, counts and durations, printed the same way everywhere and read back
// where a configuration has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dcp {

std::string format_bytes(std::int64_t bytes);  // "512 B", "1.5 MiB", "12.0 GiB"
std::string format_count(std::int64_t count);  // "1,234,567"
std::string format_counted(std::int64_t count,
                           std::string_view noun);  // "1 file", "1,234 files"
std::string format_seconds(double seconds);  // "850 ms", "12.3 s", "4 min 05 s", "2 h 07 min"

// "1048576", "12GiB", "1.5 GB", "512k"; a decimal prefix is a power of 1000, a binary one of 1024.
// Nothing for anything else.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace dcp
