#include "core/lengths/keys.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::lengths {

namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

template <class Number>
bool read(std::string_view text, Number& value) {
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && stop == text.data() + text.size();
}

}  // namespace

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : ", ") + word;
    }
    return text;
}

Keys::Keys(std::string name, std::string_view text) : name_(std::move(name)) {
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const std::size_t equals = part.find('=');
        if (equals == std::string_view::npos) {
            refuse(
                fmt::format("'{}' is not KEY=VALUE (write {}:key=value,key=value)", part, name_));
        }
        const std::string key(part.substr(0, equals));
        if (!values_.emplace(key, part.substr(equals + 1)).second) {
            refuse(fmt::format("repeated key '{}'; keep one of them", key));
        }
    }
}

double Keys::real(const std::string& key, double fallback, double min, double max) {
    known_.push_back(key);
    const auto entry = values_.find(key);
    if (entry == values_.end()) {
        return fallback;
    }
    double value = 0;
    if (!read(entry->second, value) || !(value >= min) || !(value <= max)) {
        refuse(fmt::format("{}={} must be a number from {} to {}", key, entry->second, min, max));
    }
    values_.erase(entry);
    return value;
}

std::int64_t Keys::whole(const std::string& key, std::int64_t fallback) {
    known_.push_back(key);
    const auto entry = values_.find(key);
    if (entry == values_.end()) {
        return fallback;
    }
    std::int64_t value = 0;
    if (!read(entry->second, value) || value < 1 || value > kMostTokens) {
        refuse(fmt::format("{}={} must be a whole number from 1 to {}", key, entry->second,
                           kMostTokens));
    }
    values_.erase(entry);
    return value;
}

Limits Keys::limits(std::int64_t min, std::int64_t max) {
    const Limits limits{.min = whole("min", min), .max = whole("max", max)};
    if (limits.min > limits.max) {
        refuse(fmt::format("min={} is above max={}", limits.min, limits.max));
    }
    return limits;
}

void Keys::finish() const {
    if (!values_.empty()) {
        refuse(fmt::format("unknown key '{}'; known: {}", values_.begin()->first,
                           known_.empty() ? "none" : joined(known_)));
    }
}

void Keys::refuse(const std::string& what) const {
    throw ConfigError(fmt::format("distribution {}: {}", name_, what));
}

}  // namespace dcp::lengths
