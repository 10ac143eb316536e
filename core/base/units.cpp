#include "core/base/units.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace dcp {

std::string format_bytes(std::int64_t bytes) {
    if (std::abs(bytes) < 1024) {
        return fmt::format("{} B", bytes);
    }
    constexpr std::array<const char*, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (std::abs(value) >= 1023.95 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(std::int64_t count) {
    std::string digits = fmt::format("{}", count);
    const std::ptrdiff_t first_digit = count < 0 ? 1 : 0;
    for (auto place = std::ssize(digits) - 3; place > first_digit; place -= 3) {
        digits.insert(static_cast<std::size_t>(place), 1, ',');
    }
    return digits;
}

std::string format_counted(std::int64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_seconds(double seconds) {
    // The limits are where rounding would reach the next unit: never "1000 ms" or "60.0 s".
    if (seconds < 0.9995) {
        return fmt::format("{:.0f} ms", seconds * 1e3);
    }
    if (seconds < 59.95) {
        return fmt::format("{:.1f} s", seconds);
    }
    constexpr double kManyHours = 1e6;
    if (seconds >= kManyHours * 3600) {
        return fmt::format("{:.3g} h", seconds / 3600);
    }
    const auto whole = static_cast<std::int64_t>(std::llround(seconds));
    if (whole < 3600) {
        return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    }
    return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || value < 0 || !std::isfinite(value)) {
        return std::nullopt;
    }
    std::string unit(end, text.data() + text.size());
    unit.erase(0, unit.find_first_not_of(' '));
    for (char& letter : unit) {
        letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    constexpr std::array<std::pair<std::string_view, double>, 15> kUnits{
        {{"", 1},
         {"b", 1},
         {"k", 1e3},
         {"kb", 1e3},
         {"kib", 1024.0},
         {"m", 1e6},
         {"mb", 1e6},
         {"mib", 1048576.0},
         {"g", 1e9},
         {"gb", 1e9},
         {"gib", 1073741824.0},
         {"t", 1e12},
         {"tb", 1e12},
         {"tib", 1099511627776.0},
         {"pib", 1125899906842624.0}}};
    for (const auto& [known, factor] : kUnits) {
        if (unit == known && value * factor < 9.2e18) {
            return std::llround(value * factor);
        }
    }
    return std::nullopt;
}

}  // namespace dcp
