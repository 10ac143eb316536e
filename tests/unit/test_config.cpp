// The configuration reader: every key, every kind of mistake with the words a user sees,
// precedence, provenance, and that what is printed reads back.

#include "tests/support/dataset_files.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/config/reader.hpp"
#include "core/config/schema.hpp"

using namespace dcp;
using namespace dcp::config;

namespace {

using Overrides = std::vector<std::string>;

const std::string kTrain = "data: {train: a}\n";

Config parse(const std::string& yaml, const Overrides& overrides = {}) {
    return parse_config(yaml, "run.yaml", overrides).config;
}

std::string error_of(const std::string& yaml, const Overrides& overrides = {}) {
    try {
        parse(yaml, overrides);
    } catch (const ConfigError& error) {
        CHECK(error.exit_code() == kExitBadInput);
        return error.what();
    }
    return "no error";
}

// The example that other programs and the documentation rely on.
const char* const kPinned = R"(
model:
  kind: transformer-1d        # later also transformer-2d
  hidden: 256
  layers: 6
  heads: 8
  kv_heads: 4
  head_dim: 32
  ffn: 704
  vocab: 257
  norm: rmsnorm
  norm_eps: 1e-5
  activation: swiglu
  positions: rope
  rope_theta: 10000
  causal: true
  tie_embeddings: false
  init_from: ""
data:
  train: [data/manpages]
  validation: []
  max_tokens: 8192
batch:
  sequences: 64
optimizer: {name: adamw, lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1, clip: 1.0}
schedule: {kind: cosine, warmup: 20, final: 0.1}
planner: {name: dcp, degrees: any, recompute: auto, cost: ""}
memory: {budget: auto}
run: {iterations: 200, seed: 1, device: auto, dtype: auto, threads: auto, folder: runs/first, log_samples: false, validate_every: 50}
)";

}  // namespace

TEST_CASE("the pinned example is read as written", "[unit][config]") {
    const Config config = parse(kPinned);
    CHECK(config.model.kv_heads == 4);
    CHECK(config.model.norm_eps == 1e-5);
    CHECK(config.data.train == std::vector<std::string>{"data/manpages"});
    CHECK(config.data.validation.empty());
    CHECK(config.batch.sequences == 64);
    CHECK(config.batch.tokens == 0);
    CHECK(config.batch.micro_batch_tokens == kAutomatic);
    CHECK(config.optimizer.lr == 3e-4);
    CHECK(config.optimizer.betas == std::array<double, 2>{0.9, 0.95});
    CHECK(config.planner.degrees == "any");
    CHECK(config.memory.budget == kAutomatic);
    CHECK(config.run.threads == kAutomatic);
    CHECK(config.run.folder == "runs/first");
}

TEST_CASE("every key is read from the file and from --set, and printed back", "[unit][config]") {
    struct Row {
        const char* key;
        const char* written;
        const char* printed;
        Overrides also = {};  // other keys that this value needs
    };
    const std::vector<Row> rows{
        {"model.kind", "transformer-1d", "transformer-1d"},
        {"model.hidden", "512", "512"},
        {"model.layers", "1e1", "10"},
        {"model.heads", "16", "16"},
        {"model.kv_heads", "2", "2"},
        {"model.head_dim", "+64", "64"},
        {"model.ffn", "1.0e3", "1000"},
        {"model.vocab", "32000", "32000"},
        {"model.norm", "layernorm", "layernorm"},
        {"model.norm_eps", "1e-6", "1e-06"},
        {"model.activation", "gelu", "gelu"},
        {"model.positions", "none", "none"},
        {"model.rope_theta", "5e5", "500000"},
        {"model.causal", "False", "false"},
        {"model.tie_embeddings", "true", "true"},
        {"model.init_from", "'a \"b\": c'", "\"a \\\"b\\\": c\""},
        {"model.recompute_layers", "6", "6"},
        {"model.text_tokens", "300", "300", {"model.kind=transformer-2d", "model.text_width=7"}},
        {"model.text_width", "4096", "4096", {"model.kind=transformer-2d", "model.text_tokens=7"}},
        {"data.train", "b", "[b]"},
        {"data.validation", "[a, 'b c']", "[a, \"b c\"]"},
        {"data.validation_documents", "3", "3"},
        {"data.max_tokens", "100", "100"},
        {"data.shuffle", "false", "false"},
        {"batch.mode", "fixed", "fixed"},
        {"batch.sequences", "7", "7"},
        {"batch.tokens", "65536", "65536"},
        {"batch.micro_batch_tokens", "9000", "9000"},
        {"optimizer.name", "adamw", "adamw"},
        {"optimizer.lr", "2e-5", "2e-05"},
        {"optimizer.betas", "[0, 0.999]", "[0, 0.999]"},
        {"optimizer.eps", "1e-15", "1e-15"},
        {"optimizer.weight_decay", "0", "0"},
        {"optimizer.clip", "0.5", "0.5"},
        {"schedule.kind", "wsd", "wsd"},
        {"schedule.warmup", "0", "0"},
        {"schedule.final", "1", "1"},
        {"schedule.decay_share", ".5", "0.5"},
        {"planner.name", "bucket", "bucket"},
        {"planner.degrees", "[1, 2, 4]", "[1, 2, 4]"},
        {"planner.recompute", "no", "no"},
        {"planner.step_mode", "independent", "independent"},
        {"planner.cost", "costs/a.yaml", "costs/a.yaml"},
        {"planner.correct", "false", "false"},
        {"memory.budget", "12GiB", "12884901888"},
        {"run.iterations", "0", "0"},
        {"run.seed", "1000000000000000000", "1000000000000000000"},
        {"run.device", "cpu", "cpu"},
        {"run.dtype", "bf16", "bf16"},
        {"run.threads", "2", "2"},
        {"run.folder", "runs/a b", "\"runs/a b\""},
        {"run.log_samples", "true", "true"},
        {"run.validate_every", "0", "0"},
        {"run.loss_normalization", "sample", "sample"},
        {"monitor.log_steps", "true", "true"},
        {"monitor.tensorboard", "true", "true"},
        {"monitor.prometheus_port", "0", "0"},
        {"monitor.trace_iterations", "[5, 1e1]", "[5, 10]"},
        {"profile", "profiles/here.json", "profiles/here.json"},
    };
    REQUIRE(rows.size() == schema().size());
    for (const Row& row : rows) {
        INFO(row.key);
        const Key* key = find_key(row.key);
        REQUIRE(key != nullptr);
        const std::string section = section_of(row.key);
        const bool is_top = section == row.key;
        const std::string field =
            is_top ? section : std::string(row.key).substr(section.size() + 1);
        const std::string train = field == "train" ? "" : "train: [a], ";
        const std::string file =
            section == "data"
                ? "data: {" + train + field + ": " + row.written + "}\n"
                : kTrain + (is_top ? "\n" : section + ":\n  ") + field + ": " + row.written + "\n";
        const Reading from_file = parse_config(file, "run.yaml", row.also);
        const std::string line = section == "data" ? "run.yaml:1" : "run.yaml:3";
        CHECK(key->print(from_file.config) == row.printed);
        CHECK(from_file.provenance.at(row.key) == line);
        CHECK(from_file.provenance.size() == schema().size());

        Overrides overrides = row.also;
        overrides.push_back(std::string(row.key) + "=" + row.written);
        const Reading from_set = parse_config(kTrain, "run.yaml", overrides);
        CHECK(key->print(from_set.config) == row.printed);
        CHECK(from_set.provenance.at(row.key) == "--set");

        // Both printed forms are YAML that gives the same configuration.
        const std::string yaml = to_yaml(from_file.config);
        CHECK(to_yaml(parse(yaml)) == yaml);
        CHECK(to_yaml(parse(print(from_file.config, from_file.provenance))) == yaml);
        CHECK(parse(yaml).model == from_file.config.model);
    }
}

TEST_CASE("profile stands by itself, and beside no cost file", "[unit][config]") {
    CHECK(parse("data: {train: [a]}\n").profile == kAutoProfile);
    CHECK(parse("profile: off\n" + kTrain).profile == kNoProfile);
    CHECK(parse_config(kTrain + "profile: a.json\n", "run.yaml", {"profile=auto"}).config.profile ==
          kAutoProfile);
    CHECK(parse(kTrain + "profile: off\nplanner: {cost: c.yaml}\n").planner.cost == "c.yaml");
    CHECK(error_of(kTrain + "profile: a.json\nplanner: {cost: c.yaml}\n") ==
          "run.yaml:2: profile is a.json, planner.cost is c.yaml: both say what steps cost: leave "
          "one of them out");
    CHECK(error_of(kTrain + "profile: \"\"\n") ==
          "run.yaml:2: profile is '', expected auto, off or a file");
    CHECK(error_of(kTrain + "profile: {path: a}\n") ==
          "run.yaml:2: unknown key 'profile.path'; known: model, data, batch, optimizer, "
          "schedule, planner, memory, run, monitor, profile");
}

TEST_CASE("mistakes in one value name place, key, value and what is allowed", "[unit][config]") {
    struct Row {
        const char* yaml;  // stands on line 2, behind data.train
        const char* message;
    };
    const auto row = GENERATE(
        Row{"model: {hidden: abc}",
            "model.hidden is 'abc', expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: 0}", "model.hidden is 0, expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: -4}", "model.hidden is -4, expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: 2.5}",
            "model.hidden is 2.5, expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: 0x10}",
            "model.hidden is '0x10', expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: 1e300}",
            "model.hidden is 1e300, expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: 1_024}",
            "model.hidden is '1_024', expected a whole number from 1 to 1048576; write 1024 "
            "without '_'"},
        Row{"model: {hidden: '512'}",
            "model.hidden is '512', expected a whole number from 1 to 1048576; write it without "
            "quotes"},
        Row{"model: {hidden: }",
            "model.hidden is nothing, expected a whole number from 1 to 1048576; leave the key out "
            "to "
            "get the default"},
        Row{"model: {hidden: [1, 2]}",
            "model.hidden is [1, 2], expected a whole number from 1 to 1048576"},
        Row{"model: {hidden: {a: 1}}",
            "model.hidden is a map of keys, expected a whole number from 1 to 1048576"},
        Row{"model: {norm: batchnorm}", "model.norm is 'batchnorm', expected rmsnorm or layernorm"},
        Row{"model: {norm_eps: 0}", "model.norm_eps is 0, expected a number above 0 and below 1"},
        Row{"model: {rope_theta: .inf}", "model.rope_theta is '.inf', expected a number above 0"},
        Row{"model: {rope_theta: inf}", "model.rope_theta is 'inf', expected a number above 0"},
        Row{"model: {causal: yes}", "model.causal is 'yes', expected true or false"},
        Row{"model: {causal: 1}", "model.causal is 1, expected true or false"},
        Row{"model: {kind: transformer-3d}",
            "model.kind is 'transformer-3d', expected transformer-1d or transformer-2d"},
        Row{"batch: {micro_batch_tokens: many}",
            "batch.micro_batch_tokens is 'many', expected auto or a whole number from 1 to "
            "2147483648"},
        Row{"batch: {sequences: 1e12}",
            "batch.sequences is 1e12, expected a whole number from 1 to 16777216"},
        Row{"batch: {tokens: 1073741825}",
            "batch.tokens is 1073741825, expected a whole number from 1 to 1073741824"},
        Row{"optimizer: {lr: .nan}", "optimizer.lr is '.nan', expected a number not below 0"},
        Row{"optimizer: {lr: -1e-4}", "optimizer.lr is -1e-4, expected a number not below 0"},
        Row{"optimizer: {lr: '2e-5'}",
            "optimizer.lr is '2e-5', expected a number not below 0; write it without quotes"},
        Row{"optimizer: {betas: [0.9, 1]}",
            "optimizer.betas is [0.9, 1], expected a list of two numbers, each from 0 and below 1"},
        Row{"optimizer: {betas: 0.9}",
            "optimizer.betas is 0.9, expected a list of two numbers, each from 0 and below 1"},
        Row{"optimizer: {name: sgd}", "optimizer.name is 'sgd', expected adamw"},
        Row{"schedule: {kind: step}",
            "schedule.kind is 'step', expected constant, linear, cosine or wsd"},
        Row{"schedule: {final: 1.5}", "schedule.final is 1.5, expected a number from 0 to 1"},
        Row{"schedule: {decay_share: 0}",
            "schedule.decay_share is 0, expected a number above 0 to 1"},
        Row{"planner: {name: best}",
            "planner.name is 'best', expected dcp, dcp-inter, dcp-intra, bucket, packed or random"},
        Row{"planner: {step_mode: rounds}", "planner.step_mode is 'rounds', expected independent"},
        Row{"batch: {sequences: 8, mode: elastic}", "batch.mode is 'elastic', expected fixed"},
        Row{"planner: {cost: [a]}", "planner.cost is ['a'], expected a file, or \"\""},
        Row{"planner: {degrees: [0, 1]}",
            "planner.degrees is [0, 1], expected any, pow2 or a list of whole numbers from 1"},
        Row{"planner: {degrees: []}",
            "planner.degrees is [], expected any, pow2 or a list of whole numbers from 1"},
        Row{"memory: {budget: 12XB}",
            "memory.budget is '12XB', expected auto, or bytes above 0 such as 12GiB"},
        Row{"memory: {budget: 0}",
            "memory.budget is 0, expected auto, or bytes above 0 such as 12GiB"},
        Row{"run: {threads: 0}",
            "run.threads is 0, expected auto or a whole number from 1 to 1024"},
        Row{"run: {device: gpu}", "run.device is 'gpu', expected auto, cpu or cuda"},
        Row{"run: {seed: 9223372036854775808}",
            "run.seed is 9223372036854775808, expected a whole number from 0 to "
            "1000000000000000000"},
        Row{"run: {folder: ''}", "run.folder is '', expected a folder"},
        Row{"monitor: {prometheus_port: 65536}",
            "monitor.prometheus_port is 65536, expected off or a whole number from 0 to 65535"},
        Row{"monitor: {trace_iterations: [5, 0]}",
            "monitor.trace_iterations is [5, 0], expected a list of whole numbers from 1"},
        Row{"model: 5", "model is 5, expected keys below it"});
    CHECK(error_of(kTrain + row.yaml) == "run.yaml:2: " + std::string(row.message));
}

TEST_CASE("unknown and repeated keys", "[unit][config]") {
    CHECK(error_of(kTrain + "model:\n  hiden: 5\n") ==
          "run.yaml:3: unknown key 'model.hiden'; did you mean 'model.hidden'?");
    CHECK(error_of(kTrain + "modle:\n  hidden: 5\n") ==
          "run.yaml:3: unknown key 'modle.hidden'; did you mean 'model.hidden'?");
    CHECK(error_of(kTrain + "modle:\n") ==
          "run.yaml:2: unknown key 'modle'; did you mean 'model'?");
    CHECK(error_of(kTrain + "lr: 1e-3\n") ==
          "run.yaml:2: unknown key 'lr'; did you mean 'optimizer.lr'?");
    CHECK(error_of(kTrain + "run: {lr: 1e-3}\n") ==
          "run.yaml:2: unknown key 'run.lr'; did you mean 'optimizer.lr'?");
    CHECK(error_of(kTrain + "memory: {huge_pages: true}\n") ==
          "run.yaml:2: unknown key 'memory.huge_pages'; known: memory.budget");
    CHECK(error_of(kTrain + "zzzzzz: 1\n") ==
          "run.yaml:2: unknown key 'zzzzzz'; known: model, data, batch, optimizer, schedule, "
          "planner, "
          "memory, run, monitor, profile");
    CHECK(error_of(kTrain, {"model.hiden=5"}) ==
          "--set: unknown key 'model.hiden'; did you mean 'model.hidden'?");
    CHECK(error_of(kTrain + "model:\n  ffn: 1\n  hidden: 5\n  ffn: 1\n") ==
          "run.yaml:5: repeated key 'model.ffn', first on line 3; keep one of them");
    CHECK(error_of("run: {}\n" + kTrain + "run: {seed: 1}\n") ==
          "run.yaml:3: repeated key 'run', first on line 1; keep one of them");
    CHECK(error_of(kTrain + "model: {[1, 2]: 3}\n") ==
          "run.yaml:2: a key must be a plain word, not a list or a map");
}

TEST_CASE("keys that contradict each other", "[unit][config]") {
    CHECK(
        error_of(kTrain + "model: {heads: 7}") ==
        "run.yaml:2: model.heads is 7, model.hidden is 256 (default): give model.head_dim, or make "
        "model.hidden a multiple of model.heads");
    CHECK(error_of(kTrain + "model: {kv_heads: 3}") ==
          "run.yaml:2: model.kv_heads is 3, model.heads is 8 (default): model.kv_heads must divide "
          "model.heads");
    CHECK(error_of(kTrain + "model: {head_dim: 31}") ==
          "run.yaml:2: model.head_dim is 31, model.positions is rope (default): rope turns pairs, "
          "so it "
          "needs an even head_dim");
    CHECK(error_of(kTrain + "model: {recompute_layers: 7}") ==
          "run.yaml:2: model.recompute_layers is 7, model.layers is 6 (default): a model cannot "
          "recompute more layers than it has");
    CHECK(error_of(kTrain + "model: {recompute_layers: 1}\nplanner: {recompute: no}") ==
          "run.yaml:2: model.recompute_layers is 1, planner.recompute is no: set one of them "
          "otherwise");
    CHECK(error_of(kTrain + "model: {recompute_layers: 1}\nplanner: {recompute: yes}") ==
          "run.yaml:2: model.recompute_layers is 1, planner.recompute is yes, model.layers is 6 "
          "(default): yes recomputes all layers; write auto to recompute some");
    CHECK(
        error_of(kTrain + "batch: {sequences: 4, tokens: 100}") ==
        "run.yaml:2: batch.sequences is 4, batch.tokens is 100: an iteration is measured in one of "
        "them: leave the other out");
    CHECK(error_of("data: {train: a, validation: b, validation_documents: 3}") ==
          "run.yaml:1: data.validation is [b], data.validation_documents is 3: give one of them");
    CHECK(error_of(kTrain + "run: {iterations: 7}\nmonitor: {trace_iterations: [7, 8]}") ==
          "run.yaml:3: monitor.trace_iterations is [7, 8], run.iterations is 7: name iterations "
          "that will be trained, or leave monitor.trace_iterations empty");
    CHECK(error_of(kTrain + "model: {text_tokens: 3}") ==
          "run.yaml:2: model.text_tokens is 3, model.kind is transformer-1d (default): only "
          "transformer-2d has a text");
    CHECK(error_of(kTrain + "model: {kind: transformer-2d, causal: false}") ==
          "run.yaml:2: model.causal is false, model.kind is transformer-2d: transformer-2d has no "
          "choice there: leave it out");
    CHECK(error_of(kTrain + "model: {kind: transformer-2d, text_width: 3}") ==
          "run.yaml:2: model.text_tokens is 0 (default), model.text_width is 3: give both, or "
          "neither for no text");
    CHECK(error_of(kTrain + "model: {kind: transformer-2d}") == "no error");
    const std::string missing =
        "data.train is missing: give the dataset prefixes to train on (`dcp data import` makes "
        "them)";
    CHECK(error_of("") == "run.yaml: " + missing);
    CHECK(error_of("data: {train: []}") == "run.yaml:1: " + missing);
}

TEST_CASE("values that follow from others", "[unit][config]") {
    const Reading reading = parse_config(kTrain + "model: {hidden: 96, heads: 4}", "run.yaml");
    CHECK(reading.config.model.kv_heads == 4);
    CHECK(reading.config.model.head_dim == 24);
    CHECK(reading.provenance.at("model.head_dim") == "default: model.hidden / model.heads");
    CHECK(reading.config.batch.sequences == 64);
    CHECK(parse(kTrain + "batch: {tokens: 5}").batch.sequences == 0);
    CHECK(parse(kTrain + "planner: {recompute: yes}").model.recompute_layers == 6);
    CHECK(parse(kTrain + "planner: {degrees: [4, 1]}").planner.degrees == "[4, 1]");
    // A trial run of a few iterations of a configuration with a long warm-up is fine.
    CHECK(parse(kTrain + "run: {iterations: 0}").schedule.warmup == 20);
}

TEST_CASE("an override (--set) wins over the file, the later over the earlier", "[unit][config]") {
    const std::string yaml = kTrain + "optimizer: {lr: 1e-3}\nbatch: {sequences: 4}\n";
    CHECK(parse(yaml, {"optimizer.lr=2e-5"}).optimizer.lr == 2e-5);
    CHECK(parse(yaml, {"optimizer.lr=2e-5", "optimizer.lr=3"}).optimizer.lr == 3);
    CHECK(parse(yaml, {"data.train=[b, c]"}).data.train == std::vector<std::string>{"b", "c"});
    CHECK(parse(yaml, {"model.init_from=a=b"}).model.init_from == "a=b");
    CHECK(parse(yaml, {"model.init_from="}).model.init_from.empty());
    const Reading other = parse_config(yaml, "run.yaml", {"batch.tokens=100"});
    CHECK(other.config.batch.sequences == 0);
    CHECK(other.config.batch.tokens == 100);
    CHECK(error_of(yaml, {"optimizer.lr"}) ==
          "--set optimizer.lr: expected key=value, such as optimizer.lr=2e-5");
    CHECK(error_of(yaml, {"optimizer.lr="}) ==
          "--set: optimizer.lr is '', expected a number not below 0");
    CHECK(error_of(yaml, {"memory={budget: 1}"}) ==
          "--set memory: names a section, expected one of memory.budget");
    CHECK(error_of(yaml, {"data.train=[a"}).find("--set data.train:1: not valid YAML: ") == 0);
    CHECK(
        error_of(yaml, {"batch.tokens=1", "batch.sequences=1"}) ==
        "--set: batch.sequences is 1, batch.tokens is 1: an iteration is measured in one of them: "
        "leave the other out");
}

TEST_CASE("forms of YAML", "[unit][config]") {
    CHECK(parse("\xEF\xBB\xBF" + kTrain).data.train.size() == 1);  // byte order mark
    CHECK(parse("data: {train: a}\r\nrun: {seed: 5}\r\n").run.seed == 5);
    CHECK(parse(kTrain + "model:\nrun: ~\nbatch: {}\n").model.hidden == 256);
    CHECK(parse("--- # one document\n" + kTrain + "...\n").data.train.size() == 1);
    CHECK(parse("data: {train: &x [a], validation: *x}\n").data.validation.size() == 1);
    CHECK(error_of(kTrain + "model:\n\thidden: 5\n").find("run.yaml:3: not valid YAML: ") == 0);
    CHECK(error_of(kTrain + "model: {hidden: 5\n").find("not valid YAML: ") != std::string::npos);
    CHECK(error_of("- a\n- b\n") ==
          "run.yaml:1: holds a list, expected sections such as 'model:' with keys");
    CHECK(error_of("hello\n") ==
          "run.yaml:1: holds plain text, expected sections such as 'model:' with keys");
    CHECK(error_of("a: 1\n---\nb: 2\n") ==
          "run.yaml: holds 2 YAML documents (separated by '---'), expected one");
    CHECK(error_of(std::string("\0\1\2\3", 4)).find("run.yaml:1: ") == 0);
    CHECK(error_of("data: &x {train: *x}\n") != "no error");
}

TEST_CASE("files that cannot be read", "[unit][config]") {
    const test::DatasetFolder folder;
    const std::string file = folder / "run.yaml";
    test::write_file(file, kTrain);
    CHECK(read_config(file).provenance.at("data.train") == file + ":1");
    CHECK_THROWS_WITH(read_config(folder.path()),
                      folder.path() + ": is a folder, expected a YAML file");
    CHECK_THROWS_WITH(read_config(file + "x"), file + "x: no such configuration file");
    test::write_file(file, std::string((1 << 20) + 1, '#'));
    CHECK_THROWS_WITH(read_config(file),
                      file + ": is larger than 1 MiB, which no configuration is");
}

TEST_CASE("docs/configuration.md lists every key with its values and default", "[unit][config]") {
    const std::string docs = test::read_file(DCP_SOURCE_DIR "/docs/configuration.md");
    const Config defaults;
    for (const Key& key : schema()) {
        const std::string row = "| `" + key.name + "` |";
        const auto at = docs.find(row);
        INFO(row << " " << key.allowed << " " << key.meaning);
        REQUIRE(at != std::string::npos);
        const std::string line = docs.substr(at, docs.find('\n', at) - at);
        CHECK(line.find(key.allowed) != std::string::npos);
        CHECK(line.find(key.meaning) != std::string::npos);
        if (key.name.find("batch.") != 0 && key.name != "data.train") {
            CHECK(line.find("| " + key.print(defaults) + " |") != std::string::npos);
        }
    }
}
