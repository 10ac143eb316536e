#include "core/plan/cost_model.hpp"

#include <algorithm>

namespace dcp::plan {

double attention_pairs(const Sequence& sequence) {
    const auto tokens = static_cast<double>(sequence.tokens);
    if (sequence.frames == 0) {
        return tokens * tokens;
    }
    const auto frames = static_cast<double>(sequence.frames);
    return tokens * (tokens / frames + frames);
}

double kept_by_layers(int layers, int recompute_layers, double kept, double checkpoint) {
    if (recompute_layers == 0) {
        return layers * kept;
    }
    const double some =
        std::max(layers - recompute_layers, 1) * kept + recompute_layers * checkpoint;
    return std::max(some, kept + layers * checkpoint);
}

}  // namespace dcp::plan
