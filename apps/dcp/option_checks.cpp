#include "apps/dcp/option_checks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp {

namespace {

template <class Number>
bool is_all_of(const std::string& text, Number& number) {
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, number);
    return status == std::errc() && stop == end;
}

// With a leading 0 the library would count in eights.
bool is_decimal(const std::string& text) {
    const std::size_t first = text.starts_with('-') ? 1 : 0;
    return text.size() == first + 1 || text[first] != '0';
}

template <class Integer>
std::string fault_of(const std::string& text, const char* allowed) {
    Integer number = 0;
    return is_all_of(text, number) && is_decimal(text)
               ? ""
               : fmt::format("must be a whole number{}, and is '{}'", allowed, text);
}

}  // namespace

CLI::Validator whole_number() {
    return {[](const std::string& text) {
                return fault_of<std::int64_t>(text, " such as 10, of 64 bits at most");
            },
            "", "whole number"};
}

CLI::Validator seed_number() {
    return {[](const std::string& text) {
                const std::string allowed =
                    fmt::format(" from 0 to {}", std::numeric_limits<std::uint64_t>::max());
                return fault_of<std::uint64_t>(text, allowed.c_str());
            },
            "", "seed"};
}

void refuse_empty_texts(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        option->check([](const std::string& text) {
            return std::string(text.empty() ? "must not be empty: leave the option out" : "");
        });
    }
    for (CLI::App* command : app.get_subcommands({})) {
        refuse_empty_texts(*command);
    }
}

std::vector<std::string> elements_of(const std::string& option, const std::string& list) {
    std::vector<std::string> elements;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        elements.push_back(list.substr(begin, end - begin));
        if (elements.back().empty()) {
            throw ConfigError(
                fmt::format("{} is '{}': element {} is empty", option, list, elements.size()));
        }
        begin = end + 1;
    }
    return elements;
}

std::vector<double> numbers_of(const std::string& option, const std::string& list) {
    std::vector<double> numbers;
    for (const std::string& element : elements_of(option, list)) {
        if (!is_all_of(element, numbers.emplace_back())) {
            throw ConfigError(
                fmt::format("{} is '{}': '{}' is not a number", option, list, element));
        }
    }
    return numbers;
}

}  // namespace dcp
