// Reading a weights folder, ours or that of another Llama-family program.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/errors.hpp"
#include "core/model/hf_layout.hpp"

namespace dcp::model {

namespace {

namespace fs = std::filesystem;
using config::ModelConfig;

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

// Angles that old Llama checkpoints keep; they follow from rope_theta, and transformers skips them.
constexpr std::string_view kRotaryBuffer = ".rotary_emb.inv_freq";

void add_file(const fs::path& path, std::vector<SafetensorsFile>& files, StoredTensors& tensors) {
    const SafetensorsFile& file = files.emplace_back(path.string());
    for (const auto& [name, tensor] : file.tensors()) {
        if (!tensors.emplace(name, tensor).second) {
            throw DataError(
                fmt::format("{}: tensor '{}' stands in another shard too", path.string(), name));
        }
    }
}

// File of each tensor by model.safetensors.index.json.
std::map<std::string, std::string> read_index(const fs::path& path) {
    std::ifstream file(path);
    const nlohmann::json index = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    std::map<std::string, std::string> files;
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
        throw DataError(path.string() + ": expected JSON with a weight_map of tensors to files");
    }
    for (const auto& [name, shard] : index["weight_map"].items()) {
        if (!shard.is_string() || fs::path(shard.get<std::string>()).has_parent_path()) {
            throw DataError(
                fmt::format("{}: tensor '{}' is said to be in {}, expected the name of "
                            "a file beside the index",
                            path.string(), name, shard.dump()));
        }
        files[name] = shard.get<std::string>();
    }
    return files;
}

// The files to open: the one file where there is one, as transformers does, else the shards.
std::vector<fs::path> list_files(const fs::path& folder,
                                 std::map<std::string, std::string>& file_of_tensor) {
    const fs::path single = folder / "model.safetensors";
    const fs::path index = folder / "model.safetensors.index.json";
    if (fs::exists(single)) {
        return {single};
    }
    if (!fs::exists(index)) {
        const bool is_pickled = fs::exists(folder / "pytorch_model.bin");
        throw DataError(fmt::format(
            "{}: has no model.safetensors and no model.safetensors.index.json{}", folder.string(),
            is_pickled ? "; it holds pytorch_model.bin, which must be converted first" : ""));
    }
    file_of_tensor = read_index(index);
    std::set<fs::path> shards;
    for (const auto& [name, shard] : file_of_tensor) {
        shards.insert(folder / shard);
    }
    return {shards.begin(), shards.end()};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool same_shape(const Shape& expected, const std::vector<std::int64_t>& stored) {
    bool same = static_cast<std::size_t>(expected.num_dims()) == stored.size();
    for (std::size_t dim = 0; same && dim < stored.size(); ++dim) {
        same = expected[static_cast<int>(dim)] == stored[dim];
    }
    return same;
}

// A tied model needs no lm_head.weight. Some programs store the copy all the same; one that differs
// says that the model is not tied, and which of the two is right nobody can tell here.
void drop_tied_head(const ModelConfig& model, StoredTensors& tensors, const std::string& folder) {
    const auto head = tensors.find(kHead);
    const auto embedding = tensors.find(kEmbedding);
    if (!model.tie_embeddings || head == tensors.end() || embedding == tensors.end()) {
        return;
    }
    const std::span<const std::byte> a = head->second.bytes;
    const std::span<const std::byte> b = embedding->second.bytes;
    if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size()) != 0) {
        throw DataError(
            fmt::format("{}: config.json says tie_word_embeddings, but {} is stored and "
                        "differs from {}; set tie_word_embeddings to false or remove it",
                        folder, kHead, kEmbedding));
    }
    tensors.erase(head);
}

// What differs between the model of a folder and that of the configuration; empty: nothing.
std::string list_differences(const ModelConfig& expected, const ModelConfig& found) {
    std::string differences;
    const auto compare = [&](const char* key, auto wanted, auto stored) {
        if (wanted != stored) {
            differences += fmt::format("{}model.{} {} (configuration: {})",
                                       differences.empty() ? "" : ", ", key, stored, wanted);
        }
    };
    const auto norm = [](const ModelConfig& m) {
        return m.norm == config::NormKind::kRmsNorm ? "rmsnorm" : "layernorm";
    };
    const auto activation = [](const ModelConfig& m) {
        return m.activation == config::Activation::kSwiGlu ? "swiglu" : "gelu";
    };
    const auto positions = [](const ModelConfig& m) {
        return m.positions == config::Positions::kRope ? "rope" : "none";
    };
    compare("hidden", expected.hidden, found.hidden);
    compare("layers", expected.layers, found.layers);
    compare("heads", expected.heads, found.heads);
    compare("kv_heads", expected.kv_heads, found.kv_heads);
    compare("head_dim", expected.head_dim, found.head_dim);
    compare("ffn", expected.ffn, found.ffn);
    compare("vocab", expected.vocab, found.vocab);
    compare("norm", std::string(norm(expected)), std::string(norm(found)));
    compare("norm_eps", expected.norm_eps, found.norm_eps);
    compare("activation", std::string(activation(expected)), std::string(activation(found)));
    compare("positions", std::string(positions(expected)), std::string(positions(found)));
    if (expected.positions == config::Positions::kRope) {
        compare("rope_theta", expected.rope_theta, found.rope_theta);
    }
    compare("causal", expected.causal, found.causal);
    compare("tie_embeddings", expected.tie_embeddings, found.tie_embeddings);
    return differences;
}

}  // namespace

std::string list_misfits(const std::vector<TensorSpec>& specs, const StoredTensors& stored) {
    std::string missing;
    std::string shapes;
    std::string unexpected;
    const auto list = [](std::string& text, const char* title, const std::string& item) {
        text += (text.empty() ? title : ", ") + item;
    };
    std::set<std::string, std::less<>> expected;
    for (const TensorSpec& spec : specs) {
        expected.insert(spec.name);
        const auto found = stored.find(spec.name);
        if (found == stored.end()) {
            list(missing, "; missing: ", spec.name);
        } else if (!same_shape(spec.shape, found->second.shape)) {
            list(shapes, "; other shape: ",
                 fmt::format("{} {} instead of {}", spec.name, shape_text(found->second.shape),
                             spec.shape.to_string()));
        }
    }
    for (const auto& [name, tensor] : stored) {
        if (expected.count(name) == 0 && !std::string_view(name).ends_with(kRotaryBuffer)) {
            list(unexpected, "; unexpected: ", name);
        }
    }
    return missing + shapes + unexpected;
}

WeightsFolder::WeightsFolder(const std::string& folder)
    : config_(read_model_config(folder)), specs_(tensor_specs(config_.model)) {
    std::map<std::string, std::string> file_of_tensor;
    for (const fs::path& path : list_files(folder, file_of_tensor)) {
        add_file(path, files_, tensors_);
    }
    for (const auto& [name, shard] : file_of_tensor) {
        if (tensors_.count(name) == 0) {
            throw DataError(fmt::format("{}: the index names '{}' in {}, which does not have it",
                                        folder, name, shard));
        }
    }
    drop_tied_head(config_.model, tensors_, folder);
    const std::string misfits = list_misfits(specs_, tensors_);
    if (!misfits.empty()) {
        throw DataError(fmt::format("{}: the weights do not fit the model{}", folder, misfits));
    }
}

void WeightsFolder::read(const std::string& name, std::span<float> out) const {
    read_as_float(tensors_.at(name), name, out);
}

FolderConfig load_weights(const std::string& folder,
                          const ModelConfig* expected,
                          const TensorTarget& target) {
    const WeightsFolder weights(folder);
    const std::string differences =
        expected == nullptr ? "" : list_differences(*expected, weights.config().model);
    if (!differences.empty()) {
        throw DataError(fmt::format("{}: is another model than the configuration: {}{}", folder,
                                    differences,
                                    list_misfits(tensor_specs(*expected), weights.tensors())));
    }
    for (const TensorSpec& spec : weights.specs()) {
        weights.read(spec.name, target(spec.name, spec.shape));
    }
    return weights.config();
}

}  // namespace dcp::model
