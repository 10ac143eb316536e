#include "core/config/simulate_file.hpp"

#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/config/cost_file.hpp"
#include "core/config/rows.hpp"
#include "core/config/value.hpp"

namespace dcp::config {

namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 42;  // times kMaxRanks fits too
constexpr double kMaxSpread = 1;
constexpr double kMaxSlowdown = 1000;

struct Row {
    std::string allowed;
    std::function<bool(const Value&, SimulateFile&)> read;
};

template <class Field>
Row whole(Field SimulateFile::*section,
          std::optional<std::int64_t> Field::*field,
          std::int64_t most = kMaxCount) {
    return {fmt::format("a whole number from 1 to {}", most),
            [=](const Value& value, SimulateFile& file) {
                const auto number = as_integer(value);
                if (!number || *number < 1 || *number > most) {
                    return false;
                }
                (file.*section).*field = number;
                return true;
            }};
}

template <class Field>
Row real(Field SimulateFile::*section, double Field::*field, RealRange range) {
    return {"a number " + range.to_string(), [=](const Value& value, SimulateFile& file) {
                const auto number = as_real(value);
                if (!number || !range.contains(*number)) {
                    return false;
                }
                (file.*section).*field = *number;
                return true;
            }};
}

template <class Field>
Row word(Field SimulateFile::*section,
         std::string Field::*field,
         std::string allowed,
         std::vector<std::string> words = {}) {
    return {std::move(allowed), [=](const Value& value, SimulateFile& file) {
                std::string read;
                if (!read_text(value, read)) {  // empty: as if the key were not there
                    return false;
                }
                bool is_known = words.empty();
                for (const std::string& one : words) {
                    is_known = is_known || one == read;
                }
                (file.*section).*field = std::move(read);
                return is_known;
            }};
}

template <class Field>
Row flag(Field SimulateFile::*section, bool Field::*field) {
    return {"true or false", [=](const Value& value, SimulateFile& file) {
                const auto read = as_flag(value);
                (file.*section).*field = read.value_or(false);
                return read.has_value();
            }};
}

// One number or a rising list of them.
bool read_ranks(const Value& value, SimulateFile& file) {
    std::vector<Value> items = value.items;
    if (value.kind == Value::Kind::kScalar) {
        items = {value};
    }
    file.cluster.ranks.clear();
    for (const Value& item : items) {
        const auto ranks = as_integer(item);
        if (!ranks || *ranks < 1 || *ranks > kMaxRanks ||
            (!file.cluster.ranks.empty() && *ranks <= file.cluster.ranks.back())) {
            return false;
        }
        file.cluster.ranks.push_back(*ranks);
    }
    return !file.cluster.ranks.empty();
}

bool read_degrees(const Value& value, SimulateFile& file) {
    if (value.kind == Value::Kind::kScalar) {
        file.planner.degrees = value.text;
        return value.text == "any" || value.text == "pow2";
    }
    std::string text;
    std::int64_t last = 0;
    for (const Value& item : value.items) {
        const auto degree = as_integer(item);
        if (!degree || *degree <= last || *degree > kMaxRanks) {
            return false;
        }
        last = *degree;
        if (!text.empty()) {
            text += ',';
        }
        text += std::to_string(last);
    }
    file.planner.degrees = text;
    return !text.empty();
}

bool read_memory_budget(const Value& value, SimulateFile& file) {
    if (value.kind != Value::Kind::kScalar) {
        return false;
    }
    file.cluster.memory_budget = parse_bytes(value.text);
    return file.cluster.memory_budget.value_or(0) > 0;
}

bool read_plan_seconds(const Value& value, SimulateFile& file) {
    if (value.kind == Value::Kind::kScalar && value.text == "measured") {
        file.planner.plan_seconds = -1;
        return true;
    }
    const auto seconds = as_real(value);
    file.planner.plan_seconds = seconds.value_or(0);
    return seconds && *seconds >= 0;
}

const std::map<std::string, Row>& rows() {
    using File = SimulateFile;
    const RealRange not_negative{.min = 0};
    static const std::map<std::string, Row> all{
        {"name",
         {"a text", [](const Value& value, File& file) { return read_text(value, file.name); }}},
        {"cluster.cost", word(&File::cluster, &File::Cluster::cost, "the path of a cost file")},
        {"cluster.model", word(&File::cluster, &File::Cluster::model, "a model")},
        {"cluster.ranks",
         {fmt::format("a whole number from 1 to {}, or a rising list of them", kMaxRanks),
          read_ranks}},
        {"cluster.ranks_per_node",
         whole(&File::cluster, &File::Cluster::ranks_per_node, kMaxRanks)},
        {"cluster.memory_budget", {"bytes above 0, such as 12GiB", read_memory_budget}},
        {"data.distribution",
         word(&File::data, &File::Data::distribution, "a distribution, such as wikipedia")},
        {"data.lengths", word(&File::data, &File::Data::lengths, "the path of a lengths file")},
        {"data.dataset",
         {"the prefix of a dataset, or a list of them",
          [](const Value& value, File& file) { return read_texts(value, file.data.dataset); }}},
        {"data.max_tokens", whole(&File::data, &File::Data::max_tokens)},
        {"data.shuffle", flag(&File::data, &File::Data::shuffle)},
        {"data.validation_documents",
         {fmt::format("a whole number from 0 to {}", kMaxCount),
          [](const Value& value, File& file) {
              return read_integer(value, {.min = 0, .max = kMaxCount},
                                  file.data.validation_documents);
          }}},
        {"batch.sequences", whole(&File::batch, &File::Batch::sequences)},
        {"batch.sequences_per_rank", whole(&File::batch, &File::Batch::sequences_per_rank)},
        {"batch.tokens", whole(&File::batch, &File::Batch::tokens)},
        {"batch.tokens_per_rank", whole(&File::batch, &File::Batch::tokens_per_rank)},
        {"batch.mode",
         word(&File::batch, &File::Batch::mode, "fixed or elastic", {"fixed", "elastic"})},
        {"run.iterations", whole(&File::run, &File::Run::iterations)},
        {"run.sequences", whole(&File::run, &File::Run::sequences)},
        {"run.epochs", whole(&File::run, &File::Run::epochs)},
        {"run.seed",
         {fmt::format("a whole number from 0 to {}", kMaxSeed),
          [](const Value& value, File& file) {
              return read_integer(value, {.min = 0, .max = kMaxSeed}, file.run.seed);
          }}},
        {"planner.names",
         {"a list of planners, such as [bucket, dcp]",
          [](const Value& value, File& file) {
              return read_texts(value, file.planner.names) && !file.planner.names.empty();
          }}},
        {"planner.degrees", {"any, pow2 or a rising list such as [1, 2, 4]", read_degrees}},
        {"planner.recompute", word(&File::planner, &File::Planner::recompute,
                                   "'yes' or 'no' (in quotes)", {"yes", "no"})},
        {"planner.effort", word(&File::planner, &File::Planner::effort, "fast or background",
                                {"fast", "background"})},
        {"planner.step_mode",
         word(&File::planner, &File::Planner::step_mode, "independent, rounds or rounds-one-depth",
              {"independent", "rounds", "rounds-one-depth"})},
        {"planner.plan_seconds", {"measured, or a number of seconds from 0", read_plan_seconds}},
        {"iteration.reduce_bytes",
         real(&File::iteration, &File::Iteration::reduce_bytes, not_negative)},
        {"iteration.reduce_bandwidth",
         real(&File::iteration, &File::Iteration::reduce_bandwidth, not_negative)},
        {"iteration.reduce_latency",
         real(&File::iteration, &File::Iteration::reduce_latency, not_negative)},
        {"iteration.optimizer_seconds",
         real(&File::iteration, &File::Iteration::optimizer_seconds, not_negative)},
        {"noise.step", real(&File::noise, &File::Noise::step, {.min = 0, .max = kMaxSpread})},
        {"stragglers.share",
         real(&File::stragglers, &File::Stragglers::share, {.min = 0, .max = 1})},
        {"stragglers.slowdown",
         real(&File::stragglers, &File::Stragglers::slowdown, {.min = 1, .max = kMaxSlowdown})},
        {"stragglers.known", flag(&File::stragglers, &File::Stragglers::known)},
        {"stragglers.moving", flag(&File::stragglers, &File::Stragglers::moving)}};
    return all;
}

std::string known_keys() {
    std::string names;
    for (const auto& [key, row] : rows()) {
        names += (names.empty() ? "" : ", ") + key;
    }
    return names;
}

bool is_section(const std::string& key) {
    const auto next = rows().lower_bound(key + ".");
    return next != rows().end() && next->first.starts_with(key + ".");
}

void assign(const Assignment& given, SimulateFile& file) {
    if (is_section(given.key) && given.value.kind == Value::Kind::kNothing) {
        return;  // a section with all keys left out
    }
    const auto row = rows().find(given.key);
    if (row == rows().end()) {
        throw ConfigError(
            fmt::format("{}: unknown key '{}'; known: {}", given.origin, given.key, known_keys()));
    }
    if (!row->second.read(given.value, file)) {
        throw ConfigError(fmt::format("{}: {} is {}, expected {}", given.origin, given.key,
                                      shown(given.value), row->second.allowed));
    }
}

// Of some keys exactly one must be there.
void require_one(const std::string& file, const std::vector<std::pair<std::string, bool>>& keys) {
    std::vector<std::string> names;
    std::vector<std::string> given;
    for (const auto& [name, is_there] : keys) {
        names.push_back(name);
        if (is_there) {
            given.push_back(name);
        }
    }
    if (given.empty()) {
        throw ConfigError(fmt::format("{}: {} is missing", file, one_of(names)));
    }
    if (given.size() > 1) {
        throw ConfigError(
            fmt::format("{}: {} and {} contradict each other; keep one", file, given[0], given[1]));
    }
}

void check(const SimulateFile& config, const std::string& file) {
    require_one(file, {{"cluster.cost", !config.cluster.cost.empty()}});
    require_one(file, {{"cluster.ranks", !config.cluster.ranks.empty()}});
    require_one(file, {{"data.distribution", !config.data.distribution.empty()},
                       {"data.lengths", !config.data.lengths.empty()},
                       {"data.dataset", !config.data.dataset.empty()}});
    require_one(file, {{"batch.sequences", config.batch.sequences.has_value()},
                       {"batch.sequences_per_rank", config.batch.sequences_per_rank.has_value()},
                       {"batch.tokens", config.batch.tokens.has_value()},
                       {"batch.tokens_per_rank", config.batch.tokens_per_rank.has_value()}});
    require_one(file, {{"run.iterations", config.run.iterations.has_value()},
                       {"run.sequences", config.run.sequences.has_value()},
                       {"run.epochs", config.run.epochs.has_value()}});
    if (config.run.epochs && !config.data.distribution.empty()) {
        throw ConfigError(fmt::format(
            "{}: run.epochs: a distribution has no end; give run.iterations or run.sequences",
            file));
    }
    if (config.data.validation_documents > 0 && config.data.dataset.empty()) {
        throw ConfigError(fmt::format(
            "{}: data.validation_documents are held out of data.dataset, and there is none", file));
    }
    if (!config.data.shuffle && !config.data.distribution.empty()) {
        throw ConfigError(fmt::format(
            "{}: data.shuffle is false, and a distribution has no order of its own", file));
    }
    if (config.iteration.reduce_bytes > 0 && config.iteration.reduce_bandwidth == 0) {
        throw ConfigError(fmt::format(
            "{}: iteration.reduce_bandwidth is missing: iteration.reduce_bytes needs it", file));
    }
    if (config.batch.mode == "elastic" && config.planner.step_mode != "independent") {
        throw ConfigError(
            fmt::format("{}: batch.mode elastic needs planner.step_mode independent: in rounds no "
                        "rank is idle alone",
                        file));
    }
    if (config.stragglers.known && config.stragglers.moving) {
        throw ConfigError(fmt::format(
            "{}: stragglers.known and stragglers.moving contradict each other: what moves every "
            "iteration is known to nobody; keep one",
            file));
    }
}

}  // namespace

SimulateFile parse_simulate_file(const std::string& text,
                                 const std::string& file,
                                 const std::vector<std::string>& overrides) {
    SimulateFile config;
    for (const Assignment& given : parse_document(text, file)) {
        assign(given, config);
    }
    for (const std::string& override : overrides) {
        assign(parse_override(override), config);
    }
    check(config, file);
    return config;
}

SimulateFile read_simulate_file(const std::string& path,
                                const std::vector<std::string>& overrides) {
    return parse_simulate_file(read_text_file(path, "simulation file"), path, overrides);
}

}  // namespace dcp::config
