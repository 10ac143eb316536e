#include "core/plan/profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/errors.hpp"
#include "core/plan/topology.hpp"

namespace dcp::plan {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostTokens = 1e12;
constexpr double kMostCount = 1e9;
constexpr double kMostLayers = 1e4;  // every recompute depth has its own costs

constexpr const char* kLinkNames[] = {"none", "node", "network"};

[[noreturn]] void refuse(const std::string& where, const std::string& problem) {
    throw ConfigError(fmt::format("{}: {} {}", kProfileFormat, where, problem));
}

// One object of the file. Every key is taken once; finish() refuses what nobody asked for.
class Keys {
public:
    Keys(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
        if (!object.is_object()) {
            refuse(prefix_.empty() ? "the file" : prefix_, "must be an object");
        }
    }

    const Json& take(const char* key) {
        if (!object_.contains(key)) {
            refuse(name(key), "is missing");
        }
        ++taken_;
        known_ += fmt::format("{}{}", known_.empty() ? "" : ", ", key);
        return object_.at(key);
    }

    double real(const char* key) {
        const Json& value = take(key);
        if (!value.is_number() || !(value.get<double>() >= 0) ||
            !std::isfinite(value.get<double>())) {
            refuse(name(key), "must be a number, 0 or more");
        }
        return value.get<double>();
    }

    std::int64_t whole(const char* key, double most, std::int64_t least = 1) {
        const double value = real(key);
        if (value != std::floor(value) || value < static_cast<double>(least) || value > most) {
            refuse(name(key), fmt::format("must be a whole number from {} to {:.0f}", least, most));
        }
        return static_cast<std::int64_t>(value);
    }

    int count(const char* key, std::int64_t least = 1) {
        return static_cast<int>(whole(key, kMostCount, least));
    }

    bool flag(const char* key) {
        const Json& value = take(key);
        if (!value.is_boolean()) {
            refuse(name(key), "must be true or false");
        }
        return value.get<bool>();
    }

    std::string text(const char* key) {
        const Json& value = take(key);
        if (!value.is_string()) {
            refuse(name(key), "must be text");
        }
        return value.get<std::string>();
    }

    const Json& list(const char* key) {
        const Json& value = take(key);
        if (!value.is_array()) {
            refuse(name(key), "must be a list");
        }
        return value;
    }

    bool has(const char* key) const { return object_.contains(key); }

    void finish() const {
        if (taken_ == object_.size()) {
            return;
        }
        for (const auto& [key, value] : object_.items()) {
            if ((", " + known_ + ",").find(", " + key + ",") == std::string::npos) {
                refuse(name(key), "is unknown; known: " + known_);
            }
        }
    }

    std::string name(const std::string& key) const { return fmt::format("'{}{}'", prefix_, key); }

private:
    const Json& object_;
    std::string prefix_;
    std::string known_;
    std::size_t taken_ = 0;
};

ProfilePoint read_point(const Json& object, std::size_t index) {
    Keys keys(object, fmt::format("points[{}].", index));
    ProfilePoint point;
    point.tokens = keys.whole("tokens", kMostTokens);
    point.squared_tokens = keys.real("squared_tokens");
    point.strategy = {.ulysses = keys.count("ulysses"), .ring = keys.count("ring")};
    const std::string link = keys.text("link");
    if (link == kLinkNames[0]) {
        point.link = LinkClass::kNone;
    } else if (link == kLinkNames[1]) {
        point.link = LinkClass::kNode;
    } else if (link == kLinkNames[2]) {
        point.link = LinkClass::kNetwork;
    } else {
        refuse(keys.name("link"), "must be none, node or network");
    }
    point.forward_seconds = keys.real("forward_seconds");
    point.backward_seconds = keys.real("backward_seconds");
    point.recompute_seconds = keys.real("recompute_seconds");
    point.kept_bytes = keys.real("kept_bytes");
    point.checkpoint_bytes = keys.real("checkpoint_bytes");
    point.working_bytes = keys.real("working_bytes");
    keys.finish();
    if ((point.link == LinkClass::kNone) != (point.strategy.degree() == 1)) {
        refuse(keys.name("link"), "must be none on one rank, and only there");
    }
    return point;
}

Json point_to_json(const ProfilePoint& point) {
    return {{"tokens", point.tokens},
            {"squared_tokens", point.squared_tokens},
            {"ulysses", point.strategy.ulysses},
            {"ring", point.strategy.ring},
            {"link", kLinkNames[static_cast<std::size_t>(point.link)]},
            {"forward_seconds", point.forward_seconds},
            {"backward_seconds", point.backward_seconds},
            {"recompute_seconds", point.recompute_seconds},
            {"kept_bytes", point.kept_bytes},
            {"checkpoint_bytes", point.checkpoint_bytes},
            {"working_bytes", point.working_bytes}};
}

void read_model(Keys& top, Profile& profile) {
    profile.name = top.text("name");
    for (const auto& [key, value] : top.take("measured").items()) {
        if (!value.is_string()) {
            refuse(fmt::format("'measured.{}'", key), "must be text");
        }
        profile.measured[key] = value.get<std::string>();
    }
    profile.layers = static_cast<int>(top.whole("layers", kMostLayers));
    profile.heads = {.query = top.count("heads", 0), .key_value = top.count("kv_heads", 0)};
    profile.dimensions = static_cast<int>(top.whole("dimensions", 2));
    profile.text_pairs = top.real("text_pairs");
    profile.ranks_per_node = top.count("ranks_per_node");
    profile.may_recompute = top.flag("recompute");
}

}  // namespace

LinkClass link_class(int degree, int ranks_per_node) {
    if (degree == 1) {
        return LinkClass::kNone;
    }
    return degree <= ranks_per_node ? LinkClass::kNode : LinkClass::kNetwork;
}

void add_points(Profile& profile, std::span<const ProfilePoint> points) {
    for (const ProfilePoint& point : points) {
        const auto same = std::find_if(
            profile.points.begin(), profile.points.end(), [&](const ProfilePoint& known) {
                return known.tokens == point.tokens &&
                       known.squared_tokens == point.squared_tokens &&
                       known.strategy == point.strategy && known.link == point.link;
            });
        if (same == profile.points.end()) {
            profile.points.push_back(point);
        } else {
            *same = point;
        }
    }
}

std::string to_json(const Profile& profile) {
    const Json head = {
        {"format", kProfileFormat},
        {"name", profile.name},
        {"measured", profile.measured},
        {"layers", profile.layers},
        {"heads", profile.heads.query},
        {"kv_heads", profile.heads.key_value},
        {"dimensions", profile.dimensions},
        {"text_pairs", profile.text_pairs},
        {"ranks_per_node", profile.ranks_per_node},
        {"recompute", profile.may_recompute},
        {"memory",
         {{"budget_bytes", profile.budget_bytes},
          {"replicated_bytes", profile.replicated_bytes},
          {"sharded_bytes", profile.sharded_bytes}}},
        {"micro_batch",
         {{"fixed_seconds", profile.fixed_seconds},
          {"token_seconds", profile.token_seconds},
          {"token_bytes", profile.token_bytes}}},
        {"iteration",
         {{"reduction_seconds", profile.reduction_seconds},
          {"optimizer_seconds", profile.optimizer_seconds}}},
        {"reference",
         {{"tokens", profile.reference.tokens}, {"seconds", profile.reference.seconds}}},
        {"speeds", profile.speeds}};
    std::string text = "{\n";
    for (const auto& [key, value] : head.items()) {
        text += fmt::format("\"{}\": {},\n", key, value.dump());
    }
    text += "\"points\": [";
    for (std::size_t i = 0; i < profile.points.size(); ++i) {
        text += fmt::format("{}\n{}", i == 0 ? "" : ",", point_to_json(profile.points[i]).dump());
    }
    return text + "\n]}\n";
}

Profile parse_profile(std::string_view text) {
    Json document;
    try {
        document = Json::parse(text);
    } catch (const Json::parse_error& error) {
        throw ConfigError(fmt::format(
            "{}: not JSON, from byte {} on; `dcp profile` measures and writes a new one",
            kProfileFormat, error.byte));
    }
    Keys top(document, "");
    if (const std::string format = top.text("format"); format != kProfileFormat) {
        refuse("'format'", fmt::format("is '{}'", format));
    }
    Profile profile;
    read_model(top, profile);
    Keys memory(top.take("memory"), "memory.");
    profile.budget_bytes = memory.real("budget_bytes");
    if (profile.budget_bytes == 0) {
        refuse("'memory.budget_bytes'", "must be a number above 0");
    }
    profile.replicated_bytes = memory.real("replicated_bytes");
    profile.sharded_bytes = memory.real("sharded_bytes");
    memory.finish();
    Keys micro_batch(top.take("micro_batch"), "micro_batch.");
    profile.fixed_seconds = micro_batch.real("fixed_seconds");
    profile.token_seconds = micro_batch.real("token_seconds");
    profile.token_bytes = micro_batch.real("token_bytes");
    micro_batch.finish();
    Keys iteration(top.take("iteration"), "iteration.");
    profile.reduction_seconds = iteration.real("reduction_seconds");
    profile.optimizer_seconds = iteration.real("optimizer_seconds");
    iteration.finish();
    if (top.has("reference")) {  // of those who measured it
        Keys reference(top.take("reference"), "reference.");
        profile.reference.tokens = reference.whole("tokens", kMostTokens, 0);
        profile.reference.seconds = reference.real("seconds");
        reference.finish();
        if ((profile.reference.tokens > 0) != (profile.reference.seconds > 0)) {
            refuse("'reference'", "must have tokens and seconds above 0, or both 0");
        }
    }
    for (const Json& speed : top.list("speeds")) {
        if (!speed.is_number()) {
            refuse("'speeds'", "must be numbers");
        }
        const auto rank = static_cast<int>(profile.speeds.size());
        if (const std::string fault = speed_fault(rank, speed.get<double>()); !fault.empty()) {
            refuse("'speeds':", fault);
        }
        profile.speeds.push_back(speed.get<double>());
    }
    const Json& points = top.list("points");
    for (std::size_t i = 0; i < points.size(); ++i) {
        profile.points.push_back(read_point(points[i], i));
    }
    top.finish();
    return profile;
}

}  // namespace dcp::plan
