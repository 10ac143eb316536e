// config.json to ModelConfig and back.
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/errors.hpp"
#include "core/model/hf_layout.hpp"

namespace dcp::model {

namespace {

using Json = nlohmann::json;
using config::Activation;
using config::ModelConfig;
using config::NormKind;
using config::Positions;

constexpr std::string_view kLlama = "llama";
constexpr std::string_view kOurs = "dcp-transformer-1d";
constexpr std::int64_t kByteVocab = 257;  // bytes and the end-of-document token

bool is_llama(const ModelConfig& model) {
    return model.causal && model.norm == NormKind::kRmsNorm &&
           model.positions == Positions::kRope && model.activation == Activation::kSwiGlu;
}

// Typed access to the keys of one config.json. A key that is absent or null has its default.
class Reader {
public:
    Reader(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

    bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
    const Json& at(const char* key) const { return json_.at(key); }

    std::int64_t size(const char* key, std::optional<std::int64_t> absent = std::nullopt) const {
        if (!has(key) && absent) {
            return *absent;
        }
        if (!has(key) || !at(key).is_number_integer() || at(key) < 1 || at(key) > kLargest) {
            wrong(key, "a whole number from 1");
        }
        return at(key).get<std::int64_t>();
    }
    double positive(const char* key, double absent) const {
        if (!has(key)) {
            return absent;
        }
        if (!at(key).is_number() || !(at(key).get<double>() > 0)) {
            wrong(key, "a number above 0");
        }
        return at(key).get<double>();
    }
    bool flag(const char* key, bool absent) const {
        if (has(key) && !at(key).is_boolean()) {
            wrong(key, "true or false");
        }
        return has(key) ? at(key).get<bool>() : absent;
    }
    std::string word(const char* key, const std::string& absent) const {
        if (has(key) && !at(key).is_string()) {
            wrong(key, "a text");
        }
        return has(key) ? at(key).get<std::string>() : absent;
    }
    // One of two words; true for the first.
    bool first_of(const char* key, const char* first, const char* second) const {
        const std::string value = word(key, "");
        if (value != first && value != second) {
            wrong(key, fmt::format("{} or {}", first, second));
        }
        return value == first;
    }

    [[noreturn]] void wrong(const char* key, const std::string& expected) const {
        throw DataError(fmt::format("{}: {} is {}, expected {}", file_, key,
                                    json_.contains(key) ? at(key).dump() : "missing", expected));
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw UnsupportedError(fmt::format("{}: {} is not supported", file_, what));
    }
    void refuse_if(bool asked, const char* key) const {
        if (asked) {
            refuse(fmt::format("{}: {}", key, at(key).dump()));
        }
    }
    const std::string& file() const { return file_; }

private:
    static constexpr std::int64_t kLargest = std::int64_t{1} << 31;
    const Json& json_;
    std::string file_;
};

// Before transformers 5: rope_theta, and rope_scaling where positions are stretched. Since then:
// rope_parameters with both.
double read_rope_theta(const Reader& config) {
    double theta = config.positive("rope_theta", 10000);
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        if (!config.has(key)) {
            continue;
        }
        if (!config.at(key).is_object()) {
            config.wrong(key, "a map");
        }
        const Reader rope(config.at(key), config.file() + ": " + key);
        const std::string type = rope.word("rope_type", rope.word("type", "default"));
        if (type != "default") {
            config.refuse(fmt::format("{}: rope scaling of type '{}'", key, type));
        }
        rope.refuse_if(rope.positive("partial_rotary_factor", 1) != 1, "partial_rotary_factor");
        theta = rope.positive("rope_theta", theta);
    }
    return theta;
}

void refuse_what_we_lack(const Reader& config) {
    config.refuse_if(config.flag("attention_bias", false), "attention_bias");
    config.refuse_if(config.flag("mlp_bias", false), "mlp_bias");
    config.refuse_if(config.has("sliding_window"), "sliding_window");
    config.refuse_if(config.has("quantization_config"), "quantization_config");
    config.refuse_if(config.positive("partial_rotary_factor", 1) != 1, "partial_rotary_factor");
    config.refuse_if(config.word("hidden_act", "silu") != "silu", "hidden_act");
    if (config.has("attention_dropout") && config.at("attention_dropout") != 0) {
        config.refuse_if(true, "attention_dropout");
    }
    if (config.has("layer_types")) {
        for (const Json& type : config.at("layer_types")) {
            config.refuse_if(type != "full_attention", "layer_types");
        }
    }
}

void read_sizes(const Reader& config, ModelConfig& model) {
    model.hidden = config.size("hidden_size");
    model.ffn = config.size("intermediate_size");
    model.layers = config.size("num_hidden_layers");
    model.heads = config.size("num_attention_heads");
    model.vocab = config.size("vocab_size");
    model.kv_heads = config.size("num_key_value_heads", model.heads);
    if (!config.has("head_dim") && model.hidden % model.heads != 0) {
        config.wrong("head_dim", "a number where num_attention_heads does not divide hidden_size");
    }
    model.head_dim = config.size("head_dim", model.hidden / model.heads);
    if (model.heads % model.kv_heads != 0) {
        config.wrong("num_key_value_heads", "a divisor of num_attention_heads");
    }
    model.tie_embeddings = config.flag("tie_word_embeddings", false);
}

}  // namespace

std::string to_hf_config(const FolderConfig& folder, DType stored) {
    const ModelConfig& model = folder.model;
    const bool llama = is_llama(model);
    nlohmann::ordered_json json;
    json["architectures"] = {llama ? "LlamaForCausalLM" : "DcpTransformer1d"};
    json["model_type"] = llama ? kLlama : kOurs;
    json["hidden_size"] = model.hidden;
    json["intermediate_size"] = model.ffn;
    json["num_hidden_layers"] = model.layers;
    json["num_attention_heads"] = model.heads;
    json["num_key_value_heads"] = model.kv_heads;
    json["head_dim"] = model.head_dim;
    json["vocab_size"] = model.vocab;
    json["max_position_embeddings"] = folder.max_tokens;
    json["tie_word_embeddings"] = model.tie_embeddings;
    if (llama) {
        json["rms_norm_eps"] = model.norm_eps;
        json["rope_theta"] = model.rope_theta;
        json["hidden_act"] = "silu";
        json["attention_bias"] = false;
        json["mlp_bias"] = false;
    } else {
        json["norm"] = model.norm == NormKind::kRmsNorm ? "rmsnorm" : "layernorm";
        json["norm_eps"] = model.norm_eps;
        json["activation"] = model.activation == Activation::kSwiGlu ? "swiglu" : "gelu";
        json["positions"] = model.positions == Positions::kRope ? "rope" : "none";
        json["rope_theta"] = model.rope_theta;
        json["causal"] = model.causal;
    }
    json["torch_dtype"] = stored == DType::kBFloat16 ? "bfloat16" : "float32";
    // Left out, transformers would take 1 and 2, which are bytes here.
    json["bos_token_id"] = nullptr;
    json["eos_token_id"] = nullptr;
    if (model.vocab == kByteVocab) {
        json["eos_token_id"] = kByteVocab - 1;
    }
    return json.dump(2) + "\n";
}

FolderConfig parse_hf_config(std::string_view text, const std::string& file) {
    Json json;
    try {
        json = Json::parse(text);
    } catch (const Json::exception& error) {
        throw DataError(fmt::format("{}: not JSON: {}", file, error.what()));
    }
    if (!json.is_object()) {
        throw DataError(file + ": expected a JSON object");
    }
    const Reader config(json, file);
    const std::string type = config.word("model_type", "missing");
    FolderConfig folder;
    ModelConfig& model = folder.model;
    if (type == kLlama) {
        if (config.has("architectures") && config.at("architectures") != Json{"LlamaForCausalLM"}) {
            config.refuse(fmt::format("architectures: {} (LlamaForCausalLM is)",
                                      config.at("architectures").dump()));
        }
        refuse_what_we_lack(config);
        read_sizes(config, model);
        model.rope_theta = read_rope_theta(config);
        model.norm_eps = config.positive("rms_norm_eps", 1e-6);  // transformers' default
    } else if (type == kOurs) {
        read_sizes(config, model);
        model.norm = config.first_of("norm", "rmsnorm", "layernorm") ? NormKind::kRmsNorm
                                                                     : NormKind::kLayerNorm;
        model.norm_eps = config.positive("norm_eps", model.norm_eps);
        model.activation = config.first_of("activation", "swiglu", "gelu") ? Activation::kSwiGlu
                                                                           : Activation::kGelu;
        model.positions =
            config.first_of("positions", "rope", "none") ? Positions::kRope : Positions::kNone;
        model.rope_theta = config.positive("rope_theta", model.rope_theta);
        model.causal = config.flag("causal", true);
    } else {
        config.refuse(fmt::format("model_type '{}' (llama and {} are)", type, kOurs));
    }
    if (model.positions == Positions::kRope && model.head_dim % 2 != 0) {
        config.wrong("head_dim", "an even number, as rotary positions turn pairs");
    }
    folder.max_tokens = config.size("max_position_embeddings", 2048);  // transformers' default
    return folder;
}

FolderConfig read_model_config(const std::string& folder) {
    const std::string path = folder + "/config.json";
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    std::error_code error;
    if (!std::filesystem::exists(folder, error)) {
        throw DataError(fmt::format("{}: no such weights folder", folder));
    }
    if (!file || text.str().empty()) {
        throw DataError(
            fmt::format("{}: no readable config.json in it, so not a weights folder "
                        "(config.json and model.safetensors)",
                        folder));
    }
    return parse_hf_config(text.str(), path);
}

}  // namespace dcp::model
