#include "core/plan/json.hpp"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/errors.hpp"
#include "core/plan/statistics.hpp"

namespace dcp::plan {

namespace {

using Json = nlohmann::ordered_json;  // keys in the order of the format's description

constexpr const char* kFormat = "dcp-plan-1";

Json step_to_json(const Step& step) {
    return {{"ranks", step.world_ranks},
            {"sequences", step.sequences},
            {"strategy", {{"ulysses", step.strategy.ulysses}, {"ring", step.strategy.ring}}},
            {"recompute_layers", step.recompute_layers},
            {"start_seconds", step.start_seconds},
            {"seconds", step.seconds},
            {"peak_bytes", step.peak_bytes}};
}

[[noreturn]] void refuse(const std::string& key, const char* expected) {
    throw PlanError(fmt::format("{}: '{}' is missing or not {}", kFormat, key, expected));
}

const Json& member(const Json& object, const std::string& key, const char* expected) {
    if (!object.is_object() || !object.contains(key)) {
        refuse(key, expected);
    }
    return object.at(key);
}

template <class Integer>
Integer whole(const Json& value, const std::string& key) {
    constexpr const char* kExpected = "a whole number in range";
    if (!value.is_number_integer()) {
        refuse(key, kExpected);
    }
    if (value.is_number_unsigned()) {
        if (value.get<std::uint64_t>() >
            static_cast<std::uint64_t>(std::numeric_limits<Integer>::max())) {
            refuse(key, kExpected);
        }
    } else if (value.get<std::int64_t>() <
               static_cast<std::int64_t>(std::numeric_limits<Integer>::min())) {
        refuse(key, kExpected);
    }
    return value.get<Integer>();
}

template <class Integer>
Integer whole_member(const Json& object, const std::string& key) {
    return whole<Integer>(member(object, key, "a whole number"), key);
}

// Before anything is made for so many ranks.
int ranks_member(const Json& object, const std::string& key) {
    const std::string expected = fmt::format("a whole number from 1 to {}", kMostRanks);
    const Json& value = member(object, key, expected.c_str());
    if (!value.is_number_integer() || value < 1 || value > kMostRanks) {
        refuse(key, expected.c_str());
    }
    return value.get<int>();
}

double real_member(const Json& object, const std::string& key) {
    const Json& value = member(object, key, "a number");
    if (!value.is_number()) {
        refuse(key, "a number");
    }
    return value.get<double>();
}

std::string text_member(const Json& object, const std::string& key) {
    const Json& value = member(object, key, "text");
    if (!value.is_string()) {
        refuse(key, "text");
    }
    return value.get<std::string>();
}

const Json& list_member(const Json& object, const std::string& key) {
    const Json& value = member(object, key, "a list");
    if (!value.is_array()) {
        refuse(key, "a list");
    }
    return value;
}

Step step_from_json(const Json& object) {
    Step step;
    for (const Json& rank : list_member(object, "ranks")) {
        step.world_ranks.push_back(whole<int>(rank, "ranks"));
    }
    for (const Json& sequence : list_member(object, "sequences")) {
        step.sequences.push_back(whole<std::int32_t>(sequence, "sequences"));
    }
    step.strategy = {.ulysses = step.degree(), .ring = 1};
    if (object.contains("strategy")) {
        const Json& strategy = object.at("strategy");
        step.strategy = {.ulysses = whole_member<int>(strategy, "ulysses"),
                         .ring = whole_member<int>(strategy, "ring")};
    }
    step.recompute_layers = whole_member<int>(object, "recompute_layers");
    step.start_seconds = real_member(object, "start_seconds");
    step.seconds = real_member(object, "seconds");
    step.peak_bytes = real_member(object, "peak_bytes");
    return step;
}

}  // namespace

std::string to_json(const Problem& problem, const Plan& plan, const PlanLabel& label) {
    const Statistics numbers = statistics(problem, plan);
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> frames;
    lengths.reserve(problem.sequences.size());
    bool has_frames = false;
    for (const Sequence& sequence : problem.sequences) {
        lengths.push_back(sequence.tokens);
        frames.push_back(sequence.frames);
        has_frames = has_frames || sequence.frames > 0;
    }
    Json steps = Json::array();
    for (const Step& step : plan.steps) {
        steps.push_back(step_to_json(step));
    }
    Json document = {{"format", kFormat},
                     {"planner", label.planner},
                     {"ranks", problem.topology.ranks},
                     {"ranks_per_node", problem.topology.ranks_per_node},
                     {"cost", label.cost},
                     {"batch", label.batch},
                     {"seed", label.seed},
                     {"sequences", lengths},
                     {"steps", steps},
                     {"makespan_seconds", plan.makespan_seconds},
                     {"lower_bound_seconds", plan.lower_bound_seconds},
                     {"imbalance_ratio", numbers.imbalance_ratio},
                     {"tokens_per_second", numbers.tokens_per_second},
                     {"plan_seconds", label.plan_seconds}};
    if (has_frames) {
        document["frames"] = frames;
    }
    if (label.is_elastic) {
        document["batch_mode"] = "elastic";
    }
    if (problem.step_mode != StepMode::kIndependent) {
        document["step_mode"] = to_string(problem.step_mode);
    }
    if (!problem.topology.speeds.empty()) {
        document["rank_speeds"] = problem.topology.speeds;
    }
    return document.dump();
}

PlanFile from_json(std::string_view line) {
    const Json document = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded()) {
        throw PlanError(fmt::format("{}: not JSON", kFormat));
    }
    if (text_member(document, "format") != kFormat) {
        throw PlanError(
            fmt::format("'{}' is not the format {}", text_member(document, "format"), kFormat));
    }
    PlanFile file;
    file.label = {.planner = text_member(document, "planner"),
                  .cost = text_member(document, "cost"),
                  .batch = whole_member<std::int64_t>(document, "batch"),
                  .seed = whole_member<std::uint64_t>(document, "seed"),
                  .plan_seconds = real_member(document, "plan_seconds")};
    if (file.label.batch < 0) {
        refuse("batch", "a whole number from 0 up");
    }
    if (!(file.label.plan_seconds >= 0)) {
        refuse("plan_seconds", "a number from 0 up");
    }
    if (document.contains("batch_mode")) {
        const std::string mode = text_member(document, "batch_mode");
        if (mode != "elastic" && mode != "fixed") {
            refuse("batch_mode", "fixed or elastic");
        }
        file.label.is_elastic = mode == "elastic";
    }
    file.ranks = ranks_member(document, "ranks");
    file.ranks_per_node = ranks_member(document, "ranks_per_node");
    for (const Json& tokens : list_member(document, "sequences")) {
        file.sequences.push_back({.id = static_cast<std::int64_t>(file.sequences.size()),
                                  .tokens = whole<std::int64_t>(tokens, "sequences")});
    }
    if (document.contains("frames")) {
        const Json& frames = list_member(document, "frames");
        if (frames.size() != file.sequences.size()) {
            refuse("frames", "as long as 'sequences'");
        }
        for (std::size_t i = 0; i < frames.size(); ++i) {
            file.sequences[i].frames = whole<std::int64_t>(frames[i], "frames");
        }
    }
    if (document.contains("step_mode")) {
        try {
            file.step_mode = parse_step_mode(text_member(document, "step_mode"));
        } catch (const ConfigError&) {
            refuse("step_mode", "independent, rounds or rounds-one-depth");
        }
    }
    if (document.contains("rank_speeds")) {
        for (const Json& speed : list_member(document, "rank_speeds")) {
            if (!speed.is_number()) {
                refuse("rank_speeds", "a list of numbers");
            }
            file.rank_speeds.push_back(speed.get<double>());
        }
    }
    for (const Json& step : list_member(document, "steps")) {
        file.plan.steps.push_back(step_from_json(step));
    }
    file.plan.makespan_seconds = real_member(document, "makespan_seconds");
    file.plan.lower_bound_seconds = real_member(document, "lower_bound_seconds");
    file.imbalance_ratio = real_member(document, "imbalance_ratio");
    file.tokens_per_second = real_member(document, "tokens_per_second");
    return file;
}

}  // namespace dcp::plan
