#include "core/config/rules.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/config/schema.hpp"

namespace dcp::config {

namespace {

constexpr std::int64_t kDefaultSequences = 64;

class Rules {
public:
    explicit Rules(Reading& reading) : config_(reading.config), provenance_(reading.provenance) {}

    void model() {
        ModelConfig& m = config_.model;
        if (follows("model.kv_heads", "default: model.heads")) {
            m.kv_heads = m.heads;
        }
        if (follows("model.head_dim", "default: model.hidden / model.heads")) {
            require(m.hidden % m.heads == 0, {"model.heads", "model.hidden"},
                    "give model.head_dim, or make model.hidden a multiple of model.heads");
            m.head_dim = m.hidden / m.heads;
        }
        require(m.heads % m.kv_heads == 0, {"model.kv_heads", "model.heads"},
                "model.kv_heads must divide model.heads");
        require(m.positions != Positions::kRope || m.head_dim % 2 == 0,
                {"model.head_dim", "model.positions"},
                "rope turns pairs, so it needs an even head_dim");
    }

    // What belongs to the other kind of model must be as if nobody had written it.
    void kind() {
        const ModelConfig& m = config_.model;
        const Config defaults;
        const auto is_default = [&](const char* key) {
            const auto print = find_key(key)->print;
            return print(config_) == print(defaults);
        };
        if (!m.has_two_dimensions()) {
            for (const char* key : {"model.text_tokens", "model.text_width"}) {
                require(is_default(key), {key, "model.kind"}, "only transformer-2d has a text");
            }
            return;
        }
        for (const char* key :
             {"model.vocab", "model.norm", "model.norm_eps", "model.activation", "model.positions",
              "model.rope_theta", "model.causal", "model.tie_embeddings", "model.init_from"}) {
            require(is_default(key), {key, "model.kind"},
                    "transformer-2d has no choice there: leave it out");
        }
        require(
            m.kv_heads == m.heads, {"model.kv_heads", "model.heads", "model.kind"},
            "transformer-2d has as many key and value heads as heads: leave model.kv_heads out");
        require(m.head_dim * m.heads == m.hidden, {"model.head_dim", "model.heads", "model.hidden"},
                "the heads of transformer-2d are as wide together as model.hidden");
        require((m.text_tokens == 0) == (m.text_width == 0),
                {"model.text_tokens", "model.text_width"}, "give both, or neither for no text");
    }

    void recompute() {
        ModelConfig& m = config_.model;
        const std::string& allowed = config_.planner.recompute;
        if (follows("model.recompute_layers",
                    allowed == "yes" ? "default: planner.recompute is yes" : "default")) {
            m.recompute_layers = allowed == "yes" ? m.layers : 0;
        }
        require(m.recompute_layers <= m.layers, {"model.recompute_layers", "model.layers"},
                "a model cannot recompute more layers than it has");
        require(allowed != "no" || m.recompute_layers == 0,
                {"model.recompute_layers", "planner.recompute"}, "set one of them otherwise");
        require(allowed != "yes" || m.recompute_layers == m.layers,
                {"model.recompute_layers", "planner.recompute", "model.layers"},
                "yes recomputes all layers; write auto to recompute some");
    }

    void data(const std::string& file) {
        if (config_.data.train.empty()) {
            throw ConfigError((was_given("data.train") ? origin("data.train") : file) + ": " +
                              "data.train is missing: give the dataset prefixes to train on (`dcp "
                              "data import` makes them)");
        }
        require(config_.data.validation.empty() || config_.data.validation_documents == 0,
                {"data.validation", "data.validation_documents"}, "give one of them");
    }

    void batch() {
        BatchConfig& b = config_.batch;
        const std::string by_sequences = origin("batch.sequences");
        const std::string by_tokens = origin("batch.tokens");
        const bool same_source = (by_sequences == "--set") == (by_tokens == "--set");
        if (!by_sequences.empty() && !by_tokens.empty()) {
            require(!same_source, {"batch.sequences", "batch.tokens"},
                    "an iteration is measured in one of them: leave the other out");
            // The command line wins over the file, and it asked for the other measure.
            (by_tokens == "--set" ? b.sequences : b.tokens) = 0;
            provenance_[by_tokens == "--set" ? "batch.sequences" : "batch.tokens"] =
                "not used: --set gives the other";
        }
        if (by_sequences.empty() && by_tokens.empty()) {
            b.sequences = kDefaultSequences;
        }
        follows("batch.sequences", b.tokens > 0 ? "not used: batch.tokens is given" : "default");
        follows("batch.tokens", "not used: batch.sequences is given");
    }

    void monitor() {
        const std::vector<std::int64_t>& traced = config_.monitor.trace_iterations;
        require(std::all_of(traced.begin(), traced.end(),
                            [&](std::int64_t i) { return i <= config_.run.iterations; }),
                {"monitor.trace_iterations", "run.iterations"},
                "name iterations that will be trained, or leave monitor.trace_iterations empty");
    }

    void profile() {
        const bool is_file = config_.profile != kAutoProfile && config_.profile != kNoProfile;
        require(!is_file || config_.planner.cost.empty(), {"profile", "planner.cost"},
                "both say what steps cost: leave one of them out");
    }

    void remaining_defaults() {
        for (const Key& key : schema()) {
            follows(key.name, "default");
        }
    }

private:
    // True where neither file nor command line gave the key; says then what its value follows from.
    bool follows(const std::string& key, const std::string& from) {
        return provenance_.emplace(key, from).second;
    }

    std::string origin(const std::string& key) const {
        const auto found = provenance_.find(key);
        return found == provenance_.end() ? "" : found->second;
    }

    bool was_given(const std::string& key) const {
        const std::string from = origin(key);
        return !from.empty() && from.find("default") != 0 && from.find("not used") != 0;
    }

    std::string origin_prefix(const std::string& key) const {
        return was_given(key) ? origin(key) + ": " : "";
    }

    // "run.yaml:3: model.kv_heads is 3, model.heads is 8 (default): ..."
    void require(bool holds,
                 const std::vector<std::string>& keys,
                 const std::string& remedy) const {
        if (holds) {
            return;
        }
        std::string where;
        std::string values;
        for (const std::string& key : keys) {
            if (where.empty()) {
                where = origin_prefix(key);
            }
            values +=
                fmt::format("{}{} is {}{}", values.empty() ? "" : ", ", key,
                            find_key(key)->print(config_), was_given(key) ? "" : " (default)");
        }
        throw ConfigError(where + values + ": " + remedy);
    }

    Config& config_;
    Provenance& provenance_;
};

}  // namespace

void complete_and_check(Reading& reading, const std::string& file) {
    Rules rules(reading);
    rules.model();
    rules.kind();
    rules.recompute();
    rules.data(file);
    rules.batch();
    rules.monitor();
    rules.profile();
    rules.remaining_defaults();
}

}  // namespace dcp::config
