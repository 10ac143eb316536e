#include "core/config/schema.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/units.hpp"
#include "core/config/rows.hpp"

namespace dcp::config {

namespace {

constexpr std::int64_t kAnySize = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxWidth = 1 << 20;  // hidden, ffn: far above any model, far below overflow
constexpr std::int64_t kMaxTokens = 1LL << 31;  // of a sequence or a micro-batch
// An iteration reads all of its batch before it trains: a slip of the finger must not hang a run.
constexpr std::int64_t kMaxBatchSequences = 1LL << 24;
constexpr std::int64_t kMaxBatchTokens = 1LL << 30;
constexpr std::int64_t kMaxVocab = 1LL << 31;  // token ids are 32-bit

// `any`, `pow2` or a list of degrees, kept as it is printed.
bool read_degrees(const Value& value, Config& config) {
    if (value.kind == Value::Kind::kScalar && (value.text == "any" || value.text == "pow2")) {
        config.planner.degrees = value.text;
        return true;
    }
    std::string list;
    for (const Value& item : value.items) {
        const std::optional<std::int64_t> degree = as_integer(item);
        if (!degree || *degree < 1) {
            return false;
        }
        list += fmt::format("{}{}", list.empty() ? "" : ", ", *degree);
    }
    config.planner.degrees = "[" + list + "]";
    return !list.empty();
}

bool read_betas(const Value& value, Config& config) {
    const RealRange range{0, 1, false, true};
    if (value.items.size() != 2) {
        return false;
    }
    std::array<double, 2> betas{};
    for (std::size_t index = 0; index < 2; ++index) {
        const std::optional<double> beta = as_real(value.items[index]);
        if (!beta || !range.contains(*beta)) {
            return false;
        }
        betas[index] = *beta;
    }
    config.optimizer.betas = betas;
    return true;
}

bool read_budget(const Value& value, Config& config) {
    const std::optional<std::int64_t> bytes =
        value.kind == Value::Kind::kScalar ? parse_bytes(value.text) : std::nullopt;
    const bool is_auto = value.kind == Value::Kind::kScalar && value.text == "auto";
    if (is_auto || (bytes && *bytes > 0)) {
        config.memory.budget = is_auto ? kAutomatic : *bytes;
        return true;
    }
    return false;
}

bool read_port(const Value& value, Config& config) {
    constexpr IntegerRange kPorts{0, 65535};
    if (value.kind == Value::Kind::kScalar && value.text == "off") {
        config.monitor.prometheus_port = kOff;
        return true;
    }
    return read_integer(value, kPorts, config.monitor.prometheus_port);
}

// A list, which may be empty, or one number.
bool read_iterations(const Value& value, Config& config) {
    const bool is_list = value.kind == Value::Kind::kList;
    std::vector<std::int64_t> iterations;
    for (const Value& item : is_list ? value.items : std::vector<Value>{value}) {
        if (!read_integer(item, {1, kAnySize}, iterations.emplace_back())) {
            return false;
        }
    }
    config.monitor.trace_iterations = std::move(iterations);
    return true;
}

bool read_profile(const Value& value, Config& config) {
    std::string text;
    if (!read_text(value, text) || text.empty()) {
        return false;
    }
    config.profile = std::move(text);
    return true;
}

template <class Field>
Place<ModelConfig, Field> model(Field ModelConfig::*field) {
    return {&Config::model, field};
}
template <class Field>
Place<DataConfig, Field> data(Field DataConfig::*field) {
    return {&Config::data, field};
}
template <class Field>
Place<BatchConfig, Field> batch(Field BatchConfig::*field) {
    return {&Config::batch, field};
}
template <class Field>
Place<OptimizerConfig, Field> optimizer(Field OptimizerConfig::*field) {
    return {&Config::optimizer, field};
}
template <class Field>
Place<ScheduleConfig, Field> schedule(Field ScheduleConfig::*field) {
    return {&Config::schedule, field};
}
template <class Field>
Place<PlannerConfig, Field> planner(Field PlannerConfig::*field) {
    return {&Config::planner, field};
}
template <class Field>
Place<RunConfig, Field> run(Field RunConfig::*field) {
    return {&Config::run, field};
}
template <class Field>
Place<MonitorConfig, Field> monitor(Field MonitorConfig::*field) {
    return {&Config::monitor, field};
}

using M = ModelConfig;
using D = DataConfig;
using B = BatchConfig;
using O = OptimizerConfig;
using S = ScheduleConfig;
using P = PlannerConfig;
using R = RunConfig;

std::vector<Key> model_keys() {
    return {
        word("model.kind", model(&M::kind), {"transformer-1d", "transformer-2d"},
             "kind of model; transformer-2d can be planned for (`dcp plan --model`), not trained"),
        integer("model.hidden", model(&M::hidden), {1, kMaxWidth}, "width of the residual stream"),
        integer("model.layers", model(&M::layers), {1, 10000},
                "number of layers; transformer-2d: of pairs of a spatial and a temporal block"),
        integer("model.heads", model(&M::heads), {1, 65536}, "query heads"),
        integer("model.kv_heads", model(&M::kv_heads), {1, 65536},
                "key and value heads; divides model.heads; default: model.heads"),
        integer("model.head_dim", model(&M::head_dim), {1, 65536},
                "width of a head; even with rope; default: model.hidden / model.heads"),
        integer("model.ffn", model(&M::ffn), {1, kMaxWidth}, "width of the feed-forward block"),
        integer("model.vocab", model(&M::vocab), {1, kMaxVocab},
                "number of token ids; 257 is the bytes and the end-of-document token 256"),
        word("model.norm", model(&M::norm), {"rmsnorm", "layernorm"}, "kind of normalization"),
        real("model.norm_eps", model(&M::norm_eps), {0, 1, true, true},
             "added to the variance in a norm"),
        word("model.activation", model(&M::activation), {"swiglu", "gelu"},
             "activation of the feed-forward block"),
        word("model.positions", model(&M::positions), {"rope", "none"}, "position encoding"),
        real("model.rope_theta", model(&M::rope_theta), {0, kUnbounded, true},
             "base of the rotary angles"),
        flag("model.causal", model(&M::causal), "a token sees only itself and those before it"),
        flag("model.tie_embeddings", model(&M::tie_embeddings),
             "the output layer uses the embedding matrix"),
        text("model.init_from", model(&M::init_from), "a folder, or \"\"", true,
             "weights folder to start from; empty: random weights from run.seed"),
        integer("model.recompute_layers", model(&M::recompute_layers), {0, 10000},
                "the first so many layers keep only their input and compute the rest again in the "
                "backward pass: less memory, same result; default: 0, or model.layers with "
                "planner.recompute: yes"),
        integer("model.text_tokens", model(&M::text_tokens), {0, kMaxWidth},
                "transformer-2d: tokens of the text that every sequence attends to"),
        integer("model.text_width", model(&M::text_width), {0, kMaxWidth},
                "transformer-2d: width of that text's embedding"),
    };
}

std::vector<Key> data_and_batch_keys() {
    return {
        texts("data.train", data(&D::train), "a dataset prefix or a list of them",
              "what to train on: PREFIX of PREFIX.bin and PREFIX.idx, or a llm.c shard; required"),
        texts("data.validation", data(&D::validation), "a dataset prefix or a list of them",
              "what to validate on"),
        integer(
            "data.validation_documents", data(&D::validation_documents), {0, kAnySize},
            "instead of data.validation: hold out so many training documents, drawn from those of "
            "two tokens or more"),
        integer("data.max_tokens", data(&D::max_tokens), {1, kMaxTokens},
                "longest sequence; longer documents are split"),
        flag("data.shuffle", data(&D::shuffle),
             "another random order in every epoch; false: the order of data.train and of its "
             "documents, for data that comes in an order of its own"),
        integer("batch.sequences", batch(&B::sequences), {1, kMaxBatchSequences},
                "sequences of an iteration; give this or batch.tokens; default: 64"),
        integer("batch.tokens", batch(&B::tokens), {1, kMaxBatchTokens},
                "tokens of an iteration; give this or batch.sequences"),
        word("batch.mode", batch(&B::mode), {"fixed"},
             "a batch is what the seed and the epoch draw; elastic ones are for `dcp plan`"),
        integer("batch.micro_batch_tokens", batch(&B::micro_batch_tokens), {1, kMaxTokens, true},
                "most tokens that a rank holds of one micro-batch; longer sequences are shared by "
                "several ranks; auto: as memory allows, but not above data.max_tokens, nor above "
                "the longest sequence there is and 8192"),
    };
}

std::vector<Key> optimizer_keys() {
    return {
        word("optimizer.name", optimizer(&O::name), {"adamw"}, "update rule"),
        real("optimizer.lr", optimizer(&O::lr), {0}, "peak learning rate"),
        {"optimizer.betas", "a list of two numbers, each from 0 and below 1",
         "decay of the first and second moments", true, read_betas,
         [](const Config& config) {
             return fmt::format("[{}, {}]", config.optimizer.betas[0], config.optimizer.betas[1]);
         }},
        real("optimizer.eps", optimizer(&O::eps), {0, 1, true},
             "added to the root of the second moment"),
        real("optimizer.weight_decay", optimizer(&O::weight_decay), {0},
             "decoupled decay of the matrices; norms and biases never decay"),
        real("optimizer.clip", optimizer(&O::clip), {0}, "largest global gradient norm; 0: off"),
        word("schedule.kind", schedule(&S::kind), {"constant", "linear", "cosine", "wsd"},
             "shape of the learning rate after the warm-up"),
        integer("schedule.warmup", schedule(&S::warmup), {0, kAnySize},
                "iterations of linear rise; a run that is shorter ends inside it"),
        real("schedule.final", schedule(&S::final), {0, 1},
             "learning rate of the last iteration, as a share of optimizer.lr"),
        real("schedule.decay_share", schedule(&S::decay_share), {0, 1, true},
             "wsd: the last share of the iterations, which decays"),
    };
}

std::vector<Key> planner_keys() {
    return {
        word("planner.name", planner(&P::name),
             {"dcp", "dcp-inter", "dcp-intra", "bucket", "packed", "random"},
             "who decides which ranks run which sequences (docs/ranks.md)"),
        {"planner.degrees", "any, pow2 or a list of whole numbers from 1",
         "allowed sequence-parallel degrees, as far as there are ranks", false, read_degrees,
         [](const Config& config) { return config.planner.degrees; }},
        word("planner.recompute", planner(&P::recompute), {"auto", "yes", "no"},
             "may layers recompute; auto: as many as memory asks for, micro-batch by micro-batch, "
             "but model.recompute_layers at least; yes: all; no: none"),
        word("planner.step_mode", planner(&P::step_mode), {"independent"},
             "rounds, as fully sharded parameters would need them, are for `dcp plan --step-mode`"),
        text(
            "planner.cost", planner(&P::cost), "a file, or \"\"", true,
            "cost model to plan with: constants, a profile or a cluster (docs/planning.md); empty: "
            "what `profile` says"),
        flag("planner.correct", planner(&P::correct),
             "compare every iteration with its plan, and plan the next ones with what was learned: "
             "costs and how fast each rank is"),
    };
}

std::vector<Key> memory_and_run_keys() {
    return {
        {"memory.budget", "auto, or bytes above 0 such as 12GiB",
         "most memory the trainer may take; auto: what the machine has free", true, read_budget,
         [](const Config& config) {
             return print_integer(config.memory.budget, {1, kAnySize, true});
         }},
        integer("run.iterations", run(&R::iterations), {0, kAnySize},
                "iterations to train; 0: write the initial weights and end"),
        integer("run.seed", run(&R::seed), {0, kMaxSeed}, "seed of everything random"),
        word("run.device", run(&R::device), {"auto", "cpu", "cuda"},
             "where to train; cuda is refused in this version"),
        word("run.dtype", run(&R::dtype), {"auto", "fp32", "bf16"},
             "type of the matrix products; auto: bf16 where the processor has it"),
        integer("run.threads", run(&R::threads), {1, 1024, true}, "threads; auto: one a core"),
        text("run.folder", run(&R::folder), "a folder", false, "where the run is written"),
        flag("run.log_samples", run(&R::log_samples),
             "write the ids of the sequences of each iteration to samples.jsonl"),
        integer("run.validate_every", run(&R::validate_every), {0, kAnySize},
                "iterations between validations; 0: only at the end"),
        word("run.loss_normalization", run(&R::loss_normalization), {"token", "sample"},
             "mean over the tokens of the batch, or over its sequences of their means"),
    };
}

std::vector<Key> monitor_keys() {
    return {
        flag("monitor.log_steps", monitor(&MonitorConfig::log_steps),
             "write every step, predicted and measured, to metrics.jsonl"),
        flag("monitor.tensorboard", monitor(&MonitorConfig::tensorboard),
             "write an event file for TensorBoard into run.folder"),
        {"monitor.prometheus_port", "off or a whole number from 0 to 65535",
         "port of this machine alone (127.0.0.1) where rank 0 answers Prometheus; 0: any that is "
         "free",
         true, read_port,
         [](const Config& config) {
             const std::int64_t port = config.monitor.prometheus_port;
             return port == kOff ? "off" : fmt::format("{}", port);
         }},
        {"monitor.trace_iterations", "a list of whole numbers from 1",
         "iterations whose plan and reality are written as a trace for Perfetto", true,
         read_iterations,
         [](const Config& config) {
             return fmt::format("[{}]", fmt::join(config.monitor.trace_iterations, ", "));
         }},
    };
}

std::vector<Key> top_keys() {
    return {
        {"profile", "auto, off or a file",
         "what steps cost, for the planner (docs/profile.md); auto: measured on these ranks when a "
         "run starts, unless it was before; off: a few rates, measured in less time; planner.cost "
         "beats it",
         false, read_profile, [](const Config& config) { return print_text(config.profile); }},
    };
}

std::vector<Key> all_keys() {
    std::vector<Key> keys;
    for (auto part : {model_keys, data_and_batch_keys, optimizer_keys, planner_keys,
                      memory_and_run_keys, monitor_keys, top_keys}) {
        for (Key& key : part()) {
            keys.push_back(std::move(key));
        }
    }
    return keys;
}

}  // namespace

std::span<const Key> schema() {
    static const std::vector<Key> keys = all_keys();
    return keys;
}

const Key* find_key(const std::string& name) {
    for (const Key& key : schema()) {
        if (key.name == name) {
            return &key;
        }
    }
    return nullptr;
}

std::string section_of(const std::string& key) {
    return key.substr(0, key.find('.'));
}

bool is_section(const std::string& name) {
    return std::any_of(schema().begin(), schema().end(), [&](const Key& key) {
        return key.name != name && section_of(key.name) == name;
    });
}

}  // namespace dcp::config
