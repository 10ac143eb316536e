#include "core/config/rows.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

namespace dcp::config {

bool RealRange::contains(double value) const {
    return (without_min ? value > min : value >= min) && (without_max ? value < max : value <= max);
}

std::string RealRange::to_string() const {
    const std::string low =
        without_min ? fmt::format("above {}", min) : fmt::format("from {}", min);
    if (max == kUnbounded) {
        return without_min ? low : fmt::format("not below {}", min);
    }
    return low + (without_max ? fmt::format(" and below {}", max) : fmt::format(" to {}", max));
}

bool read_integer(const Value& value, const IntegerRange& range, std::int64_t& out) {
    if (range.or_auto && value.kind == Value::Kind::kScalar && value.text == "auto") {
        out = kAutomatic;
        return true;
    }
    const std::optional<std::int64_t> number = as_integer(value);
    if (!number || *number < range.min || *number > range.max) {
        return false;
    }
    out = *number;
    return true;
}

std::string print_integer(std::int64_t value, const IntegerRange& range) {
    return range.or_auto && value == kAutomatic ? "auto" : fmt::format("{}", value);
}

std::string allowed_integer(const IntegerRange& range) {
    const std::string limits =
        range.max == std::numeric_limits<std::int64_t>::max()
            ? fmt::format("a whole number not below {}", range.min)
            : fmt::format("a whole number from {} to {}", range.min, range.max);
    return range.or_auto ? "auto or " + limits : limits;
}

bool read_text(const Value& value, std::string& out) {
    if (value.kind != Value::Kind::kScalar) {
        return false;
    }
    out = value.text;
    return true;
}

bool read_texts(const Value& value, std::vector<std::string>& out) {
    std::vector<std::string> texts;
    const bool is_list = value.kind == Value::Kind::kList;
    for (const Value& item : is_list ? value.items : std::vector<Value>{value}) {
        std::string text;
        if (!read_text(item, text) || text.empty()) {
            return false;
        }
        texts.push_back(std::move(text));
    }
    out = std::move(texts);
    return true;
}

std::string print_text(const std::string& text) {
    constexpr std::array<std::string_view, 9> kNotText{"true",  "True", "TRUE", "false", "False",
                                                       "FALSE", "null", "Null", "NULL"};
    const bool is_plain =
        !text.empty() &&
        (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/') &&
        std::find(kNotText.begin(), kNotText.end(), text) == kNotText.end() &&
        std::all_of(text.begin(), text.end(), [](unsigned char letter) {
            return std::isalnum(letter) != 0 || letter == '/' || letter == '_' || letter == '-' ||
                   letter == '.';
        });
    if (is_plain) {
        return text;
    }
    std::string quoted = "\"";
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') {
            quoted += '\\';
            quoted += letter;
        } else if (static_cast<unsigned char>(letter) < 0x20) {
            quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
        } else {
            quoted += letter;
        }
    }
    return quoted + '"';
}

std::string print_texts(const std::vector<std::string>& texts) {
    std::string list;
    for (const std::string& text : texts) {
        list += (list.empty() ? "" : ", ") + print_text(text);
    }
    return "[" + list + "]";
}

std::string print_real(double value) {
    return fmt::format("{}", value);
}

std::string one_of(const std::vector<std::string>& words) {
    std::string list;
    for (std::size_t index = 0; index < words.size(); ++index) {
        list += (index == 0 ? "" : index + 1 == words.size() ? " or " : ", ") + words[index];
    }
    return list;
}

}  // namespace dcp::config
