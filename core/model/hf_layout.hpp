// A weights folder as Hugging Face transformers has it: config.json and model.safetensors, or
// shards model-0000N-of-0000M.safetensors with model.safetensors.index.json.
//
// A causal model with RMSNorm, RoPE and SwiGLU is a LlamaForCausalLM and is written as one. Every
// other Transformer-1D uses the same container and tensor names with model_type
// "dcp-transformer-1d" (docs/weights.md). What a foreign config.json asks for and this program does
// not have (rope scaling, attention biases, sliding windows, ...) is refused by name, never
// ignored.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"
#include "core/model/safetensors.hpp"

namespace dcp::model {

struct FolderConfig {
    config::ModelConfig model;    // of `init_from` and `recompute_layers` a folder knows nothing
    std::int64_t max_tokens = 0;  // max_position_embeddings
};

// config.json of a model trained on sequences of up to max_tokens, and back. `file` is what
// messages call the text. DataError, UnsupportedError.
std::string to_hf_config(const FolderConfig& folder, DType stored);
FolderConfig parse_hf_config(std::string_view json, const std::string& file);
FolderConfig read_model_config(const std::string& folder);

// Every tensor of a model, embedding first, then layer by layer. No lm_head.weight when tied.
std::vector<TensorSpec> tensor_specs(const config::ModelConfig& config);

// All tensors that are missing, of another shape or unexpected, as "; missing: a, b; unexpected:
// c"; empty when everything fits.
std::string list_misfits(const std::vector<TensorSpec>& specs, const StoredTensors& stored);

inline constexpr std::int64_t kShardBytes = 5'000'000'000;  // transformers' own default

struct SaveOptions {
    DType stored = DType::kFloat32;
    std::int64_t shard_bytes = kShardBytes;
};

// The folder appears whole or not at all; one that holds weights is replaced, one that holds
// anything else is refused (ConfigError). `source` is asked for each tensor once.
void save_weights(const std::string& folder,
                  const FolderConfig& config,
                  const TensorSource& source,
                  const SaveOptions& options = {});

// A weights folder opened for reading: the tensors of its model are there, all of them, in the
// right shapes, and no others; or one DataError lists everything that does not fit. Files stay
// mapped while it lives.
class WeightsFolder {
public:
    explicit WeightsFolder(const std::string& folder);
    const FolderConfig& config() const { return config_; }
    const std::vector<TensorSpec>& specs() const { return specs_; }
    const StoredTensors& tensors() const { return tensors_; }
    void read(const std::string& name, std::span<float> out) const;

private:
    FolderConfig config_;
    std::vector<TensorSpec> specs_;
    std::vector<SafetensorsFile> files_;
    StoredTensors tensors_;  // of all files
};

// Where the elements of a tensor go.
using TensorTarget = std::function<std::span<float>(const std::string& name, const Shape& shape)>;

// Checks the folder against `expected` (null: takes the model that it describes), then reads all
// tensors as fp32. Nothing is read before everything fits.
FolderConfig load_weights(const std::string& folder,
                          const config::ModelConfig* expected,
                          const TensorTarget& target);

}  // namespace dcp::model
