#include "core/plan/cost_model.hpp"

namespace dcp::plan {

double attention_pairs(const Sequence& sequence) {
    const auto tokens = static_cast<double>(sequence.tokens);
    if (sequence.frames == 0) {
        return tokens * tokens;
    }
    const auto frames = static_cast<double>(sequence.frames);
    return tokens * (tokens / frames + frames);
}

}  // namespace dcp::plan
