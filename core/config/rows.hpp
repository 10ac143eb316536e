// How the rows of the schema are made: one function per kind of value. A place is a section of
// Config and a field of it, both as pointers to members, so a row reads
// `integer("model.hidden", {&Config::model, &ModelConfig::hidden}, {1, 100}, "width")`.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/config/schema.hpp"

namespace dcp::config {

inline constexpr std::int64_t kMaxSeed = 1'000'000'000'000'000'000;

template <class Section, class Field>
struct Place {
    Section Config::*section;
    Field Section::*field;
    Field& in(Config& config) const { return (config.*section).*field; }
    const Field& in(const Config& config) const { return (config.*section).*field; }
};
template <class Section, class Field>
Place(Section Config::*, Field Section::*) -> Place<Section, Field>;

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Closed at both ends unless said otherwise.
struct IntegerRange {
    std::int64_t min;
    std::int64_t max;
    bool or_auto = false;  // the word auto, stored as kAutomatic
};
struct RealRange {
    double min;
    double max = kUnbounded;
    bool without_min = false;
    bool without_max = false;
    bool contains(double value) const;
    std::string to_string() const;  // "above 0 and below 1"
};

bool read_integer(const Value& value, const IntegerRange& range, std::int64_t& out);
std::string print_integer(std::int64_t value, const IntegerRange& range);
std::string allowed_integer(const IntegerRange& range);
bool read_text(const Value& value, std::string& out);
bool read_texts(const Value& value, std::vector<std::string>& out);
std::string print_text(const std::string& text);  // plain where YAML keeps it a text, else quoted
std::string print_texts(const std::vector<std::string>& texts);
std::string print_real(double value);
std::string one_of(const std::vector<std::string>& words);  // "a, b or c"

template <class Section>
Key integer(std::string name,
            Place<Section, std::int64_t> place,
            IntegerRange range,
            std::string meaning) {
    return {std::move(name),
            allowed_integer(range),
            std::move(meaning),
            true,
            [=](const Value& value, Config& config) {
                return read_integer(value, range, place.in(config));
            },
            [=](const Config& config) { return print_integer(place.in(config), range); }};
}

template <class Section>
Key real(std::string name, Place<Section, double> place, RealRange range, std::string meaning) {
    return {std::move(name),
            "a number " + range.to_string(),
            std::move(meaning),
            true,
            [=](const Value& value, Config& config) {
                const auto number = as_real(value);
                if (!number || !range.contains(*number)) {
                    return false;
                }
                place.in(config) = *number;
                return true;
            },
            [=](const Config& config) { return print_real(place.in(config)); }};
}

template <class Section>
Key flag(std::string name, Place<Section, bool> place, std::string meaning) {
    return {std::move(name),
            "true or false",
            std::move(meaning),
            false,
            [=](const Value& value, Config& config) {
                const auto read = as_flag(value);
                place.in(config) = read.value_or(place.in(config));
                return read.has_value();
            },
            [=](const Config& config) { return place.in(config) ? "true" : "false"; }};
}

template <class Section>
Key text(std::string name,
         Place<Section, std::string> place,
         std::string allowed,
         bool may_be_empty,
         std::string meaning) {
    return {std::move(name),
            std::move(allowed),
            std::move(meaning),
            false,
            [=](const Value& value, Config& config) {
                std::string read;
                if (!read_text(value, read) || (read.empty() && !may_be_empty)) {
                    return false;
                }
                place.in(config) = std::move(read);
                return true;
            },
            [=](const Config& config) { return print_text(place.in(config)); }};
}

template <class Section>
Key texts(std::string name,
          Place<Section, std::vector<std::string>> place,
          std::string allowed,
          std::string meaning) {
    return {std::move(name),
            std::move(allowed),
            std::move(meaning),
            false,
            [=](const Value& value, Config& config) { return read_texts(value, place.in(config)); },
            [=](const Config& config) { return print_texts(place.in(config)); }};
}

// An enumeration whose enumerators are words[0], words[1], ...; or a text that is one of the words.
template <class Section, class Field>
Key word(std::string name,
         Place<Section, Field> place,
         const std::vector<std::string>& words,
         std::string meaning,
         const std::string& remark = "") {
    return {std::move(name),
            one_of(words) + remark,
            std::move(meaning),
            false,
            [=](const Value& value, Config& config) {
                for (std::size_t index = 0; index < words.size(); ++index) {
                    if (value.kind == Value::Kind::kScalar && value.text == words[index]) {
                        if constexpr (std::is_enum_v<Field>) {
                            place.in(config) = static_cast<Field>(index);
                        } else {
                            place.in(config) = words[index];
                        }
                        return true;
                    }
                }
                return false;
            },
            [=](const Config& config) -> std::string {
                if constexpr (std::is_enum_v<Field>) {
                    return words[static_cast<std::size_t>(place.in(config))];
                } else {
                    return place.in(config);
                }
            }};
}

}  // namespace dcp::config
