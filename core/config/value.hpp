// A YAML value as the schema sees it: text, whether it stood in quotes, and lists of those. Which
// type a text has is decided by the key that asks for it, so `2e-5` is never silently a string.
// Nothing of the YAML library shows here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dcp::config {

struct Value {
    enum class Kind : std::uint8_t { kNothing, kScalar, kList, kMap };
    Kind kind = Kind::kNothing;
    std::string text;  // of a scalar
    bool quoted = false;
    std::vector<Value> items;  // of a list
};

// As a person would write it, for messages: 8192, 'abc', [1, 2], "nothing".
std::string shown(const Value& value);

// A plain (unquoted) decimal number; infinities, NaN, hexadecimal and `1_000` are none.
std::optional<double> as_real(const Value& value);
// The same where it is whole: 8192, +8192, 1e3, 2.0.
std::optional<std::int64_t> as_integer(const Value& value);
std::optional<bool> as_flag(const Value& value);  // true or false, in the spellings of YAML 1.2

// One key of the file or of the command line, section and name joined by a dot.
struct Assignment {
    std::string key;
    Value value;
    std::string origin;  // "run.yaml:12" or "--set"
};

// The keys of a YAML document of sections, in file order; a key without a dot is a section that has
// no map in it, or a top-level value. ConfigError for what is not YAML, not a map of maps, or names
// one key twice.
std::vector<Assignment> parse_document(const std::string& text, const std::string& file);

// "a.b=value", the value in YAML.
Assignment parse_override(const std::string& text);

}  // namespace dcp::config
