#include "core/config/section.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::config {

namespace {

constexpr int kMaxDegree = 1 << 20;

std::string place(const std::string& file, const YAML::Node& node) {
    return fmt::format("{}:{}", file, node.Mark().line + 1);
}

Value scalar(const YAML::Node& node) {
    if (!node.IsScalar()) {
        return {};
    }
    return {.kind = Value::Kind::kScalar, .text = node.Scalar(), .quoted = node.Tag() == "!"};
}

}  // namespace

YAML::Node load_yaml(const std::string& text, const std::string& file) {
    try {
        return YAML::Load(text);
    } catch (const YAML::Exception& error) {
        throw ConfigError(
            fmt::format("{}:{}: not valid YAML: {}", file, error.mark.line + 1, error.msg));
    }
}

Section::Section(const std::string& file,
                 std::string prefix,
                 const YAML::Node& map,
                 const char* what)
    : file_(file), prefix_(std::move(prefix)), place_(place(file, map)) {
    if (!map.IsMap()) {
        throw ConfigError(
            fmt::format("{}: {} must be a map of keys", place_,
                        prefix_.empty() ? what : prefix_.substr(0, prefix_.size() - 1)));
    }
    for (const auto& pair : map) {
        const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "?";
        if (!entries_.emplace(key, pair.second).second) {
            throw ConfigError(fmt::format("{}: repeated key '{}'; keep one of them",
                                          place(file_, pair.first), prefix_ + key));
        }
        places_[key] = place(file_, pair.first);
    }
}

YAML::Node Section::take(const std::string& key) {
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) {
        throw ConfigError(fmt::format("{}: '{}' is missing", place_, prefix_ + key));
    }
    YAML::Node node = entry->second;
    entries_.erase(entry);
    return node;
}

Section Section::section(const std::string& key) {
    return {file_, prefix_ + key + ".", take(key), ""};
}

std::map<int, Section> Section::sections(const std::string& key, int most) {
    constexpr const char* kExpected = "a map from whole numbers to maps of keys";
    const YAML::Node node = take(key);
    if (!node.IsMap() || node.size() == 0) {
        refuse(key, kExpected);
    }
    std::map<int, Section> found;
    for (const auto& pair : node) {
        const auto number = as_integer(scalar(pair.first));
        if (!number || *number < 1 || *number > most) {
            refuse(key, kExpected);
        }
        Section section(file_, fmt::format("{}{}.{}.", prefix_, key, *number), pair.second, "");
        if (!found.emplace(static_cast<int>(*number), std::move(section)).second) {
            throw ConfigError(fmt::format("{}: {} names {} twice; keep one", places_.at(key),
                                          prefix_ + key, *number));
        }
    }
    return found;
}

void Section::refuse(const std::string& key, const char* expected) const {
    throw ConfigError(fmt::format("{}: {} must be {}", places_.at(key), prefix_ + key, expected));
}

double Section::real(const std::string& key, const std::optional<double>& fallback) {
    if (fallback && !has(key)) {
        return *fallback;
    }
    const std::optional<double> value = as_real(scalar(take(key)));
    if (!value || *value < 0) {
        refuse(key, "a number, 0 or more (2e-5 and 1000000 are numbers, 1_000_000 is text)");
    }
    return *value;
}

double Section::positive(const std::string& key) {
    const std::optional<double> value = as_real(scalar(take(key)));
    if (!value || *value <= 0) {
        refuse(key, "a number above 0 (2e-5 and 1000000 are numbers, 1_000_000 is text)");
    }
    return *value;
}

int Section::whole(const std::string& key, int most) {
    const std::optional<std::int64_t> value = as_integer(scalar(take(key)));
    if (!value || *value < 1 || *value > most) {
        refuse(key, "a whole number, 1 or more");
    }
    return static_cast<int>(*value);
}

bool Section::flag(const std::string& key) {
    const std::optional<bool> value = as_flag(scalar(take(key)));
    if (!value) {
        refuse(key, "true or false");
    }
    return *value;
}

std::string Section::text(const std::string& key) {
    const YAML::Node node = take(key);
    if (!node.IsScalar()) {
        refuse(key, "text");
    }
    return node.Scalar();
}

std::map<int, double> Section::table(const std::string& key,
                                     const char* name,
                                     int least,
                                     bool may_be_0) {
    std::map<int, double> table;
    if (!has(key)) {
        return table;
    }
    const YAML::Node node = take(key);
    const std::string expected =
        fmt::format("a map from {}s to numbers{}, such as {{2: {}, 8: {}}}", name,
                    may_be_0 ? ", 0 or more" : " above 0", may_be_0 ? "0" : "1.25e11",
                    may_be_0 ? "1e-4" : "1.01e11");
    if (!node.IsMap()) {
        refuse(key, expected.c_str());
    }
    for (const auto& pair : node) {
        const auto number = as_integer(scalar(pair.first));
        const auto value = as_real(scalar(pair.second));
        if (!number || *number < least || *number > kMaxDegree || !value || *value < 0 ||
            (*value == 0 && !may_be_0)) {
            refuse(key, expected.c_str());
        }
        if (!table.emplace(static_cast<int>(*number), *value).second) {
            throw ConfigError(fmt::format("{}: {} names {} {} twice; keep one", places_.at(key),
                                          prefix_ + key, name, *number));
        }
    }
    return table;
}

std::vector<int> Section::degrees(const std::string& key) {
    constexpr const char* kExpected = "'any' or a rising list of SP degrees, such as [1, 2, 4, 8]";
    const YAML::Node node = take(key);
    if (node.IsScalar() && node.Scalar() == "any") {
        return {};
    }
    if (!node.IsSequence() || node.size() == 0) {
        refuse(key, kExpected);
    }
    std::vector<int> degrees;
    for (const auto& item : node) {
        const auto degree = as_integer(scalar(item));
        if (!degree || *degree < 1 || *degree > kMaxDegree ||
            (!degrees.empty() && *degree <= degrees.back())) {
            refuse(key, kExpected);
        }
        degrees.push_back(static_cast<int>(*degree));
    }
    return degrees;
}

void Section::finish(const char* known) const {
    if (!entries_.empty()) {
        const std::string& key = entries_.begin()->first;
        throw ConfigError(
            fmt::format("{}: unknown key '{}'; known: {}", places_.at(key), prefix_ + key, known));
    }
}

}  // namespace dcp::config
