// Where every parameter of a Transformer-1D lies. Parameters, gradients and optimizer states are
// flat fp32 arrays with one layout, so that the optimizer is one pass, and so that ranks can later
// share the arrays by cutting them anywhere.
//
// Matrices come first (they decay), then norms and biases (they do not). Tensors that one product
// reads together are neighbours without a gap: q, k, v; and gate, up. Every such group starts at a
// multiple of 16 elements (64 bytes); the gaps stay zero for ever.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/tensor.hpp"
#include "core/config/config.hpp"

namespace dcp::model {

struct ParameterSlot {
    std::string name;         // Hugging Face name (docs/weights.md)
    Shape shape;              // [out, in] or [features]
    std::int64_t offset = 0;  // elements from the start of the flat array
    bool decays = false;
};

class ParameterLayout {
public:
    explicit ParameterLayout(const config::ModelConfig& config);

    const std::vector<ParameterSlot>& slots() const { return slots_; }
    const ParameterSlot& slot(std::string_view name) const;  // ShapeError when there is none
    std::int64_t num_parameters() const { return num_parameters_; }  // without the gaps
    std::int64_t flat_elems() const { return flat_elems_; }
    std::int64_t decaying_elems() const { return decaying_elems_; }  // the flat array's first part

private:
    void add(std::string name, Shape shape, bool starts_group);

    std::vector<ParameterSlot> slots_;
    std::int64_t num_parameters_ = 0;
    std::int64_t flat_elems_ = 0;
    std::int64_t decaying_elems_ = 0;
};

// One tensor of a flat array.
Tensor view(Tensor flat, const ParameterSlot& slot);

// The tensors of one block inside a flat array; neighbours that are multiplied together as one
// matrix. Biases are empty with RMSNorm.
struct BlockTensors {
    Tensor attention_norm_C;
    Tensor attention_norm_bias_C;
    Tensor qkv_NC;  // [(H + 2G) D, C]
    Tensor o_CN;    // [C, H D]
    Tensor ffn_norm_C;
    Tensor ffn_norm_bias_C;
    Tensor up_FC;    // SwiGLU: gate then up, [2F, C]; GELU: [F, C]
    Tensor down_CF;  // [C, F]
};
BlockTensors block_tensors(const config::ModelConfig& config,
                           const ParameterLayout& layout,
                           Tensor flat,
                           std::int64_t layer);

// Number of parameters by formula, independent of the layout (docs/architecture.md, "Parameters").
std::int64_t count_parameters(const config::ModelConfig& config);

}  // namespace dcp::model
