// Weights folders in the layout of Hugging Face: exact keys and shapes, round trips of every kind
// of model, shards, and refusal of everything that does not fit.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/dataset_files.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/model/hf_layout.hpp"

using namespace dcp;
using namespace dcp::model;
using config::ModelConfig;

namespace {

namespace fs = std::filesystem;
using Weights = std::map<std::string, std::vector<float>>;

ModelConfig small_model() {
    ModelConfig model;
    model.hidden = 12;
    model.layers = 2;
    model.heads = 6;
    model.kv_heads = 2;
    model.head_dim = 4;  // not hidden / heads
    model.ffn = 10;
    model.vocab = 257;
    model.norm_eps = 1e-6;
    model.rope_theta = 50000;
    return model;
}

Weights random_weights(const ModelConfig& model) {
    Weights weights;
    std::uint32_t state = 1;
    for (const TensorSpec& spec : tensor_specs(model)) {
        auto& values = weights[spec.name];
        for (std::int64_t index = 0; index < spec.shape.num_elems(); ++index) {
            state = state * 1664525U + 1013904223U;
            values.push_back(static_cast<float>(state) * 0x1p-32F - 0.5F);
        }
    }
    return weights;
}

void save(const std::string& folder,
          const ModelConfig& model,
          const Weights& weights,
          SaveOptions options = {}) {
    save_weights(
        folder, {model, 512},
        [&](const std::string& name) { return std::span<const float>(weights.at(name)); }, options);
}

Weights load(const std::string& folder, const ModelConfig* expected = nullptr) {
    Weights weights;
    load_weights(folder, expected, [&](const std::string& name, const Shape& shape) {
        auto& values = weights[name];
        values.resize(static_cast<std::size_t>(shape.num_elems()), NAN);
        return std::span<float>(values);
    });
    return weights;
}

template <class Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.exit_code() == kExitBadInput);
        return error.what();
    }
    return "no error";
}

void edit(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = test::read_file(path);
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    test::write_file(path, text);
}

// Of a model that transformers made, with what each case adds in front.
std::string llama_json(const std::string& extra) {
    return "{" + extra +
           R"("architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":32,)"
           R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":61})";
}

std::string parse_error(const std::string& json) {
    return error_of([&] { parse_hf_config(json, "config.json"); });
}

}  // namespace

TEST_CASE("keys and shapes of a Llama-like model", "[unit][weights]") {
    std::map<std::string, std::string> found;
    for (const TensorSpec& spec : tensor_specs(small_model())) {
        found[spec.name] = spec.shape.to_string();
    }
    std::map<std::string, std::string> expected{{"model.embed_tokens.weight", "[257, 12]"},
                                                {"model.norm.weight", "[12]"},
                                                {"lm_head.weight", "[257, 12]"}};
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
        expected[layer + "input_layernorm.weight"] = "[12]";
        expected[layer + "self_attn.q_proj.weight"] = "[24, 12]";
        expected[layer + "self_attn.k_proj.weight"] = "[8, 12]";
        expected[layer + "self_attn.v_proj.weight"] = "[8, 12]";
        expected[layer + "self_attn.o_proj.weight"] = "[12, 24]";
        expected[layer + "post_attention_layernorm.weight"] = "[12]";
        expected[layer + "mlp.gate_proj.weight"] = "[10, 12]";
        expected[layer + "mlp.up_proj.weight"] = "[10, 12]";
        expected[layer + "mlp.down_proj.weight"] = "[12, 10]";
    }
    CHECK(found == expected);

    ModelConfig tied = small_model();
    tied.tie_embeddings = true;
    CHECK(tensor_specs(tied).size() == expected.size() - 1);
}

TEST_CASE("config.json has every key that other programs need", "[unit][weights]") {
    CHECK(to_hf_config({small_model(), 512}, DType::kFloat32) == R"({
  "architectures": [
    "LlamaForCausalLM"
  ],
  "model_type": "llama",
  "hidden_size": 12,
  "intermediate_size": 10,
  "num_hidden_layers": 2,
  "num_attention_heads": 6,
  "num_key_value_heads": 2,
  "head_dim": 4,
  "vocab_size": 257,
  "max_position_embeddings": 512,
  "tie_word_embeddings": false,
  "rms_norm_eps": 1e-06,
  "rope_theta": 50000.0,
  "hidden_act": "silu",
  "attention_bias": false,
  "mlp_bias": false,
  "torch_dtype": "float32",
  "bos_token_id": null,
  "eos_token_id": 256
}
)");
}

TEST_CASE("every kind of model survives a round trip", "[unit][weights]") {
    const test::DatasetFolder folder;
    std::vector<ModelConfig> models(7, small_model());
    models[1].tie_embeddings = true;
    models[2].norm = config::NormKind::kLayerNorm;
    models[3].activation = config::Activation::kGelu;
    models[4].positions = config::Positions::kNone;
    models[5].causal = false;
    models[6].norm = config::NormKind::kLayerNorm;
    models[6].activation = config::Activation::kGelu;
    models[6].tie_embeddings = true;
    for (const ModelConfig& model : models) {
        for (const std::int64_t shard_bytes : {kShardBytes, std::int64_t{1000}, std::int64_t{1}}) {
            const Weights weights = random_weights(model);
            save(folder / "w", model, weights, {DType::kFloat32, shard_bytes});
            CHECK(fs::exists(folder / "w/model.safetensors") == (shard_bytes == kShardBytes));
            CHECK(load(folder / "w", &model) == weights);
            const FolderConfig read = read_model_config(folder / "w");
            CHECK(read.model == model);
            CHECK(read.max_tokens == 512);
        }
    }
    CHECK(std::distance(fs::directory_iterator(folder / ""), {}) ==
          1);  // nothing temporary is left
}

TEST_CASE("bf16 weights are the rounded ones", "[unit][weights]") {
    const test::DatasetFolder folder;
    const ModelConfig model = small_model();
    Weights weights = random_weights(model);
    save(folder / "w", model, weights, {DType::kBFloat16, kShardBytes});
    CHECK(load(folder / "w") != weights);
    for (auto& [name, values] : weights) {
        for (float& value : values) {
            value = static_cast<float>(BFloat16(value));
        }
    }
    CHECK(load(folder / "w") == weights);
}

TEST_CASE("tensors that do not fit are listed, all of them", "[unit][weights]") {
    const test::DatasetFolder folder;
    ModelConfig model = small_model();
    model.layers = 1;
    save(folder / "w", model, random_weights(model));
    edit(folder / "w/config.json", "\"intermediate_size\": 10", "\"intermediate_size\": 11");
    edit(folder / "w/model.safetensors", "input_layernorm", "input_layer_nor");
    CHECK(error_of([&] { load(folder / "w"); }) ==
          (folder / "w") +
              ": the weights do not fit the model; missing: model.layers.0.input_layernorm.weight; "
              "other shape: model.layers.0.mlp.gate_proj.weight [10, 12] instead of [11, 12], "
              "model.layers.0.mlp.up_proj.weight [10, 12] instead of [11, 12], "
              "model.layers.0.mlp.down_proj.weight [12, 10] instead of [12, 11]; unexpected: "
              "model.layers.0.input_layer_nor.weight");
}

TEST_CASE("a folder of another model than the configuration", "[unit][weights]") {
    const test::DatasetFolder folder;
    const ModelConfig model = small_model();
    save(folder / "w", model, random_weights(model));
    ModelConfig other = model;
    other.layers = 3;
    other.norm_eps = 1e-5;
    other.tie_embeddings = true;
    other.activation = config::Activation::kGelu;
    other.vocab = 300;
    other.recompute_layers = 2;  // no property of weights
    CHECK(
        error_of([&] { load(folder / "w", &other); }) ==
        (folder / "w") +
            ": is another model than the configuration: model.layers 2 (configuration: 3), "
            "model.vocab 257 (configuration: 300), model.norm_eps 1e-06 (configuration: 1e-05), "
            "model.activation swiglu (configuration: gelu), model.tie_embeddings false "
            "(configuration: true); missing: model.layers.2.self_attn.q_proj.weight, "
            "model.layers.2.self_attn.k_proj.weight, model.layers.2.self_attn.v_proj.weight, "
            "model.layers.2.self_attn.o_proj.weight, model.layers.2.mlp.up_proj.weight, "
            "model.layers.2.mlp.down_proj.weight, model.layers.2.input_layernorm.weight, "
            "model.layers.2.post_attention_layernorm.weight; other shape: "
            "model.embed_tokens.weight [257, 12] instead of [300, 12]; unexpected: lm_head.weight, "
            "model.layers.0.mlp.gate_proj.weight, model.layers.1.mlp.gate_proj.weight");
    other = model;
    other.norm_eps = 1e-5;  // the shapes fit, the model does not
    CHECK(error_of([&] { load(folder / "w", &other); }) ==
          (folder / "w") +
              ": is another model than the configuration: model.norm_eps 1e-06 (configuration: "
              "1e-05)");
}

TEST_CASE("a head that is stored although it is tied", "[unit][weights]") {
    const test::DatasetFolder folder;
    ModelConfig model = small_model();
    Weights weights = random_weights(model);
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"];
    save(folder / "w", model, weights);
    const auto untied = R"("tie_word_embeddings": false)";
    const auto tied = R"("tie_word_embeddings": true)";
    edit(folder / "w/config.json", untied, tied);
    weights.erase("lm_head.weight");
    CHECK(load(folder / "w") == weights);  // a copy is harmless

    save(folder / "w", model, random_weights(model));
    edit(folder / "w/config.json", untied, tied);
    CHECK(
        error_of([&] { load(folder / "w"); }) ==
        (folder / "w") +
            ": config.json says tie_word_embeddings, but lm_head.weight is stored and differs from "
            "model.embed_tokens.weight; set tie_word_embeddings to false or remove it");
}

TEST_CASE("folders that hold no weights, or other files", "[unit][weights]") {
    const test::DatasetFolder folder;
    const ModelConfig model = small_model();
    CHECK(error_of([&] { load(folder / "none"); }) ==
          (folder / "none") + ": no such weights folder");
    std::filesystem::create_directory(folder / "bare");
    CHECK(error_of([&] { load(folder / "bare"); }) ==
          (folder / "bare") +
              ": no readable config.json in it, so not a weights folder (config.json and "
              "model.safetensors)");
    save(folder / "w", model, random_weights(model), {DType::kFloat32, 1000});
    const std::string index = folder / "w/model.safetensors.index.json";
    const std::string text = test::read_file(index);
    edit(index, "\"model-00001-of", "\"../model-00001-of");
    CHECK(error_of([&] {
              load(folder / "w");
          }).find("expected the name of a file beside the index") != std::string::npos);
    test::write_file(index, text);
    edit(index, "model.norm.weight", "model.norm.wei_ht");
    CHECK(error_of([&] {
              load(folder / "w");
          }).find("the index names 'model.norm.wei_ht' in model-") != std::string::npos);
    test::write_file(index, "[]");
    CHECK(error_of([&] { load(folder / "w"); }) ==
          index + ": expected JSON with a weight_map of tensors to files");
    fs::remove(index);
    test::write_file(folder / "w/pytorch_model.bin", "x");
    CHECK(error_of([&] { load(folder / "w"); }) ==
          (folder / "w") +
              ": has no model.safetensors and no model.safetensors.index.json; it holds "
              "pytorch_model.bin, which must be converted first");
    CHECK(error_of([&] { save(folder / "w/", model, random_weights(model)); }) ==
          (folder / "w") +
              ": exists and holds more than weights, so it will not be replaced; name another "
              "folder");
    CHECK(fs::exists(folder / "w/pytorch_model.bin"));
}

TEST_CASE("config.json of transformers, before and since version 5", "[unit][weights]") {
    const auto parse = [](const std::string& json) { return parse_hf_config(json, "config.json"); };
    const FolderConfig plain = parse(llama_json(""));
    CHECK(plain.model.kv_heads == 4);
    CHECK(plain.model.head_dim == 8);
    CHECK(plain.model.norm_eps == 1e-6);
    CHECK(plain.model.rope_theta == 10000);
    CHECK_FALSE(plain.model.tie_embeddings);
    CHECK(plain.max_tokens == 2048);
    CHECK(parse(llama_json(R"("rope_theta":5e5,"rope_scaling":null,)")).model.rope_theta == 5e5);
    CHECK(parse(llama_json(R"("rope_parameters":{"rope_theta":5e5,"rope_type":"default"},)"))
              .model.rope_theta == 5e5);
}

TEST_CASE("what this program lacks is refused by name", "[unit][weights]") {
    struct Row {
        const char* extra;
        const char* message;
    };
    const auto row = GENERATE(
        Row{R"("attention_bias":true,)", "attention_bias: true is not supported"},
        Row{R"("mlp_bias":true,)", "mlp_bias: true is not supported"},
        Row{R"("sliding_window":4096,)", "sliding_window: 4096 is not supported"},
        Row{R"("hidden_act":"gelu",)", "hidden_act: \"gelu\" is not supported"},
        Row{R"("attention_dropout":0.1,)", "attention_dropout: 0.1 is not supported"},
        Row{R"("partial_rotary_factor":0.5,)", "partial_rotary_factor: 0.5 is not supported"},
        Row{R"("quantization_config":{"bits":4},)",
            "quantization_config: {\"bits\":4} is not supported"},
        Row{R"("layer_types":["full_attention","sliding_attention"],)",
            "layer_types: [\"full_attention\",\"sliding_attention\"] is not supported"},
        Row{R"("rope_scaling":{"type":"linear","factor":2.0},)",
            "rope_scaling: rope scaling of type 'linear' is not supported"},
        Row{R"("rope_parameters":{"rope_theta":1e4,"rope_type":"llama3"},)",
            "rope_parameters: rope scaling of type 'llama3' is not supported"},
        Row{R"("num_key_value_heads":3,)",
            "num_key_value_heads is 3, expected a divisor of num_attention_heads"},
        Row{R"("head_dim":7,)",
            "head_dim is 7, expected an even number, as rotary positions turn pairs"},
        Row{R"("rms_norm_eps":"small",)", "rms_norm_eps is \"small\", expected a number above 0"});
    CHECK(parse_error(llama_json(row.extra)) == "config.json: " + std::string(row.message));
}

TEST_CASE("a config.json of something else", "[unit][weights]") {
    CHECK(parse_error("{").find("config.json: not JSON: ") == 0);
    CHECK(parse_error("[]") == "config.json: expected a JSON object");
    CHECK(parse_error("{}") ==
          "config.json: model_type 'missing' (llama and dcp-transformer-1d are) is not supported");
    CHECK(parse_error(R"({"model_type":"qwen2"})") ==
          "config.json: model_type 'qwen2' (llama and dcp-transformer-1d are) is not supported");
    CHECK(
        parse_error(
            R"({"model_type":"llama","architectures":["LlamaForSequenceClassification"]})") ==
        "config.json: architectures: [\"LlamaForSequenceClassification\"] (LlamaForCausalLM is) is "
        "not supported");
    CHECK(parse_error(R"({"model_type":"llama","hidden_size":"32"})") ==
          "config.json: hidden_size is \"32\", expected a whole number from 1");
    CHECK(parse_error(R"({"model_type":"llama"})") ==
          "config.json: hidden_size is missing, expected a whole number from 1");
}
