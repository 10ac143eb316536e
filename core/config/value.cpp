#include "core/config/value.hpp"

#include <charconv>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "core/base/errors.hpp"

namespace dcp::config {

namespace {

using Kind = Value::Kind;

// Lists hold scalars; what lies deeper is no value of ours and is kept only as "a map" or "a list".
Value convert(const YAML::Node& node, int depth = 0) {
    Value value;
    if (node.IsScalar()) {
        value.kind = Kind::kScalar;
        value.text = node.Scalar();
        value.quoted = node.Tag() == "!";
    } else if (node.IsSequence()) {
        value.kind = Kind::kList;
        if (depth == 0) {
            for (const auto& item : node) {
                value.items.push_back(convert(item, depth + 1));
            }
        }
    } else if (node.IsMap()) {
        value.kind = Kind::kMap;
    }
    return value;
}

std::string place(const std::string& file, const YAML::Mark& mark) {
    return fmt::format("{}:{}", file, mark.line + 1);
}

YAML::Node load_one(const std::string& text, const std::string& file) {
    try {
        const std::vector<YAML::Node> documents = YAML::LoadAll(text);
        if (documents.size() > 1) {
            throw ConfigError(
                fmt::format("{}: holds {} YAML documents (separated by '---'), expected one", file,
                            documents.size()));
        }
        return documents.empty() ? YAML::Node() : documents.front();
    } catch (const YAML::Exception& error) {
        throw ConfigError(
            fmt::format("{}: not valid YAML: {}", place(file, error.mark), error.msg));
    }
}

// The pairs of a map in file order, each key seen once. `prefix` is "" or "section.".
template <class Use>
void for_each_pair(const YAML::Node& map,
                   const std::string& prefix,
                   const std::string& file,
                   Use use) {
    std::map<std::string, int> lines;
    for (const auto& pair : map) {
        if (!pair.first.IsScalar()) {
            throw ConfigError(fmt::format("{}: a key must be a plain word, not a list or a map",
                                          place(file, pair.first.Mark())));
        }
        const std::string key = prefix + pair.first.Scalar();
        const std::string origin = place(file, pair.first.Mark());
        const auto [first, is_new] = lines.emplace(key, pair.first.Mark().line + 1);
        if (!is_new) {
            throw ConfigError(
                fmt::format("{}: repeated key '{}', first on line {}; keep one of them", origin,
                            key, first->second));
        }
        use(key, pair.second, origin);
    }
}

const char* skip_sign(const char* begin, const char* end) {
    return begin != end && *begin == '+' ? begin + 1 : begin;
}

}  // namespace

std::string shown(const Value& value) {
    switch (value.kind) {
        case Kind::kNothing:
            return "nothing";
        case Kind::kScalar:
            return as_real(value) ? value.text : fmt::format("'{}'", value.text);
        case Kind::kMap:
            return "a map of keys";
        case Kind::kList: {
            std::string text;
            for (const Value& item : value.items) {
                text += (text.empty() ? "" : ", ") + shown(item);
            }
            return "[" + text + "]";
        }
    }
    return "?";
}

std::optional<double> as_real(const Value& value) {
    if (value.kind != Kind::kScalar || value.quoted) {
        return std::nullopt;
    }
    const char* end = value.text.data() + value.text.size();
    const char* begin = skip_sign(value.text.data(), end);
    double number = 0;
    const auto [stop, status] = std::from_chars(begin, end, number);
    if (status != std::errc() || stop != end || !std::isfinite(number) ||
        (begin != value.text.data() && *begin == '-')) {
        return std::nullopt;
    }
    return number;
}

std::optional<std::int64_t> as_integer(const Value& value) {
    const std::optional<double> real = as_real(value);
    if (!real) {
        return std::nullopt;
    }
    const char* end = value.text.data() + value.text.size();
    std::int64_t number = 0;
    const auto [stop, status] = std::from_chars(skip_sign(value.text.data(), end), end, number);
    if (status == std::errc() && stop == end) {
        return number;  // digits only: exact beyond 2^53 too
    }
    constexpr double kExact = 9007199254740992.0;
    if (std::trunc(*real) != *real || std::abs(*real) > kExact) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*real);
}

std::optional<bool> as_flag(const Value& value) {
    if (value.kind != Kind::kScalar || value.quoted) {
        return std::nullopt;
    }
    if (value.text == "true" || value.text == "True" || value.text == "TRUE") {
        return true;
    }
    if (value.text == "false" || value.text == "False" || value.text == "FALSE") {
        return false;
    }
    return std::nullopt;
}

std::vector<Assignment> parse_document(const std::string& text, const std::string& file) {
    const YAML::Node root = load_one(text, file);
    std::vector<Assignment> assignments;
    if (!root.IsDefined() || root.IsNull()) {
        return assignments;
    }
    if (!root.IsMap()) {
        throw ConfigError(fmt::format("{}: holds {}, expected sections such as 'model:' with keys",
                                      place(file, root.Mark()),
                                      root.IsSequence() ? "a list" : "plain text"));
    }
    for_each_pair(
        root, "", file,
        [&](const std::string& section, const YAML::Node& body, const std::string& origin) {
            if (body.IsMap() && body.size() > 0) {
                for_each_pair(
                    body, section + ".", file,
                    [&](const std::string& key, const YAML::Node& value, const std::string& where) {
                        assignments.push_back({key, convert(value), where});
                    });
            } else {
                assignments.push_back({section, convert(body), origin});
            }
        });
    return assignments;
}

Assignment parse_override(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
        throw ConfigError(
            fmt::format("--set {}: expected key=value, such as optimizer.lr=2e-5", text));
    }
    Assignment assignment{text.substr(0, equals), {}, "--set"};
    const std::string written = text.substr(equals + 1);
    if (written.empty()) {
        assignment.value.kind = Kind::kScalar;  // `--set model.init_from=` empties a text
        return assignment;
    }
    assignment.value = convert(load_one(written, "--set " + assignment.key));
    return assignment;
}

}  // namespace dcp::config
