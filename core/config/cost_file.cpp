#include "core/config/cost_file.hpp"

#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "core/base/errors.hpp"
#include "core/config/value.hpp"

namespace dcp::config {

namespace {

constexpr int kMaxLayers = 100'000;
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

// One map of the file. Every key is taken once; finish() refuses what was not asked for.
class Section {
public:
    Section(const std::string& file, std::string prefix, const YAML::Node& map)
        : file_(file), prefix_(std::move(prefix)), place_(place(file, map)) {
        if (!map.IsMap()) {
            throw ConfigError(fmt::format("{}: {} must be a map of keys", place_,
                                          prefix_.empty() ? "a cost file" : prefix_));
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

    bool has(const std::string& key) const { return entries_.contains(key); }

    YAML::Node take(const std::string& key) {
        const auto entry = entries_.find(key);
        if (entry == entries_.end()) {
            throw ConfigError(fmt::format("{}: '{}' is missing", place_, prefix_ + key));
        }
        YAML::Node node = entry->second;
        entries_.erase(entry);
        return node;
    }

    [[noreturn]] void refuse(const std::string& key, const char* expected) const {
        throw ConfigError(
            fmt::format("{}: {} must be {}", places_.at(key), prefix_ + key, expected));
    }

    double real(const std::string& key, const std::optional<double>& fallback = std::nullopt) {
        if (fallback && !has(key)) {
            return *fallback;
        }
        const std::optional<double> value = as_real(scalar(take(key)));
        if (!value || *value < 0) {
            refuse(key, "a number, 0 or more (2e-5 and 1000000 are numbers, 1_000_000 is text)");
        }
        return *value;
    }

    int whole(const std::string& key, int most) {
        const std::optional<std::int64_t> value = as_integer(scalar(take(key)));
        if (!value || *value < 1 || *value > most) {
            refuse(key, "a whole number, 1 or more");
        }
        return static_cast<int>(*value);
    }

    bool flag(const std::string& key) {
        const std::optional<bool> value = as_flag(scalar(take(key)));
        if (!value) {
            refuse(key, "true or false");
        }
        return *value;
    }

    std::string text(const std::string& key) {
        const YAML::Node node = take(key);
        if (!node.IsScalar()) {
            refuse(key, "text");
        }
        return node.Scalar();
    }

    // {degree: number, ...}; nothing when the key is absent.
    std::map<int, double> by_degree(const std::string& key, bool is_zero_allowed) {
        std::map<int, double> table;
        if (!has(key)) {
            return table;
        }
        const YAML::Node node = take(key);
        constexpr const char* kExpected =
            "a map from SP degrees to numbers above 0, such as {2: 1.25e11, 8: 1.01e11}";
        constexpr const char* kExpectedWithZero =
            "a map from SP degrees to numbers, 0 or more, such as {2: 0, 8: 1e-4}";
        const char* expected = is_zero_allowed ? kExpectedWithZero : kExpected;
        if (!node.IsMap()) {
            refuse(key, expected);
        }
        for (const auto& pair : node) {
            const auto degree = as_integer(scalar(pair.first));
            const auto value = as_real(scalar(pair.second));
            if (!degree || *degree < 1 || *degree > kMaxDegree || !value || *value < 0 ||
                (*value == 0 && !is_zero_allowed)) {
                refuse(key, expected);
            }
            if (!table.emplace(static_cast<int>(*degree), *value).second) {
                throw ConfigError(fmt::format("{}: {} names degree {} twice; keep one",
                                              places_.at(key), prefix_ + key, *degree));
            }
        }
        return table;
    }

    void finish(const char* known) const {
        if (!entries_.empty()) {
            const std::string& key = entries_.begin()->first;
            throw ConfigError(fmt::format("{}: unknown key '{}'; known: {}", places_.at(key),
                                          prefix_ + key, known));
        }
    }

private:
    const std::string& file_;
    std::string prefix_;
    std::string place_;
    std::map<std::string, YAML::Node> entries_;
    std::map<std::string, std::string> places_;
};

std::vector<int> read_degrees(Section& top) {
    constexpr const char* kExpected = "'any' or a rising list of SP degrees, such as [1, 2, 4, 8]";
    const YAML::Node node = top.take("degrees");
    if (node.IsScalar() && node.Scalar() == "any") {
        return {};
    }
    if (!node.IsSequence() || node.size() == 0) {
        top.refuse("degrees", kExpected);
    }
    std::vector<int> degrees;
    for (const auto& item : node) {
        const auto degree = as_integer(scalar(item));
        if (!degree || *degree < 1 || *degree > kMaxDegree ||
            (!degrees.empty() && *degree <= degrees.back())) {
            top.refuse("degrees", kExpected);
        }
        degrees.push_back(static_cast<int>(*degree));
    }
    return degrees;
}

void read_time(const std::string& file, const YAML::Node& node, CostFile& cost) {
    Section time(file, "time.", node);
    cost.fixed = time.real("fixed");
    cost.per_token = time.real("per_token");
    cost.per_token_squared = time.real("per_token_squared");
    cost.forward_share = time.real("forward_share");
    cost.per_iteration = time.real("per_iteration", 0.0);
    time.finish("fixed, per_token, per_token_squared, forward_share, per_iteration");
}

void read_communication(const std::string& file, const YAML::Node& node, CostFile& cost) {
    Section communication(file, "communication.", node);
    cost.bytes_per_token = communication.real("bytes_per_token", 0.0);
    cost.bandwidth = communication.by_degree("bandwidth", /*is_zero_allowed=*/false);
    cost.latency = communication.by_degree("latency", /*is_zero_allowed=*/true);
    communication.finish("bytes_per_token, bandwidth, latency");
    if (cost.bytes_per_token > 0 && cost.bandwidth.empty()) {
        throw ConfigError(fmt::format(
            "{}: communication.bandwidth is missing: bytes_per_token needs it", place(file, node)));
    }
}

void read_memory(const std::string& file, const YAML::Node& node, CostFile& cost) {
    Section memory(file, "memory.", node);
    cost.budget = memory.real("budget");
    cost.static_bytes = memory.real("static");
    cost.layer_bytes_per_token = memory.real("layer_bytes_per_token");
    cost.checkpoint_bytes_per_token = memory.real("checkpoint_bytes_per_token");
    memory.finish("budget, static, layer_bytes_per_token, checkpoint_bytes_per_token");
}

YAML::Node load(const std::string& text, const std::string& file) {
    try {
        return YAML::Load(text);
    } catch (const YAML::Exception& error) {
        throw ConfigError(
            fmt::format("{}:{}: not valid YAML: {}", file, error.mark.line + 1, error.msg));
    }
}

}  // namespace

CostFile parse_cost_file(const std::string& text, const std::string& file) {
    const YAML::Node document = load(text, file);
    Section top(file, "", document);
    if (const std::string format = top.text("format"); format != "dcp-cost-1") {
        throw ConfigError(fmt::format("{}: format is '{}', expected dcp-cost-1", file, format));
    }
    CostFile cost;
    cost.name = top.text("name");
    cost.source = top.has("source") ? top.text("source") : "";
    cost.layers = top.whole("layers", kMaxLayers);
    cost.degrees = read_degrees(top);
    cost.ranks_per_node = top.whole("ranks_per_node", kMaxDegree);
    cost.recompute = top.has("recompute") && top.flag("recompute");
    read_time(file, top.take("time"), cost);
    if (top.has("communication")) {
        read_communication(file, top.take("communication"), cost);
    }
    read_memory(file, top.take("memory"), cost);
    top.finish(
        "format, name, source, layers, degrees, ranks_per_node, recompute, time, communication, "
        "memory");
    return cost;
}

CostFile read_cost_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
        throw ConfigError(fmt::format("{}: no such cost file, or it cannot be read", path));
    }
    return parse_cost_file(text.str(), path);
}

}  // namespace dcp::config
