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

// The files of a folder, kept mapped while their tensors are in use.
struct OpenFolder {
    std::vector<SafetensorsFile> files;
    StoredTensors tensors;  // of all files
};

void add_file(OpenFolder& open, const fs::path& path) {
    const SafetensorsFile& file = open.files.emplace_back(path.string());
    for (const auto& [name, tensor] : file.tensors()) {
        if (!open.tensors.emplace(name, tensor).second) {
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

OpenFolder open_folder(const std::string& folder) {
    OpenFolder open;
    const fs::path single = fs::path(folder) / "model.safetensors";
    const fs::path index = fs::path(folder) / "model.safetensors.index.json";
    if (fs::exists(single)) {
        add_file(open, single);
    } else if (fs::exists(index)) {
        const auto files = read_index(index);
        std::set<std::string> shards;
        for (const auto& [name, shard] : files) {
            shards.insert(shard);
        }
        for (const std::string& shard : shards) {
            add_file(open, fs::path(folder) / shard);
        }
        for (const auto& [name, shard] : files) {
            if (open.tensors.count(name) == 0) {
                throw DataError(fmt::format("{}: names '{}' in {}, which does not have it",
                                            index.string(), name, shard));
            }
        }
    } else {
        const bool is_pickled = fs::exists(fs::path(folder) / "pytorch_model.bin");
        throw DataError(fmt::format(
            "{}: has no model.safetensors and no model.safetensors.index.json{}", folder,
            is_pickled ? "; it holds pytorch_model.bin, which must be converted first" : ""));
    }
    return open;
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

// All that differs between what a folder holds and what the configuration asks for.
void check_model(const ModelConfig& expected, const ModelConfig& found, const std::string& folder) {
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
    if (!differences.empty()) {
        throw DataError(
            fmt::format("{}: is another model than the configuration: {}", folder, differences));
    }
}

}  // namespace

void check_tensors(const std::vector<TensorSpec>& specs,
                   const StoredTensors& stored,
                   const std::string& folder) {
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
    if (!missing.empty() || !shapes.empty() || !unexpected.empty()) {
        throw DataError(fmt::format("{}: the weights do not fit the model{}{}{}", folder, missing,
                                    shapes, unexpected));
    }
}

FolderConfig load_weights(const std::string& folder,
                          const ModelConfig* expected,
                          const TensorTarget& target) {
    const FolderConfig found = read_model_config(folder);
    if (expected != nullptr) {
        check_model(*expected, found.model, folder);
    }
    OpenFolder open = open_folder(folder);
    drop_tied_head(found.model, open.tensors, folder);
    const std::vector<TensorSpec> specs = tensor_specs(found.model);
    check_tensors(specs, open.tensors, folder);
    for (const TensorSpec& spec : specs) {
        read_as_float(open.tensors.at(spec.name), spec.name, target(spec.name, spec.shape));
    }
    return found;
}

}  // namespace dcp::model
