// One micro-batch as the model sees it: packed tokens on the device, and which of them belong
// together.
#pragma once

#include <vector>

#include "core/base/tensor.hpp"
#include "kernels/attention.hpp"

namespace dcp::model {

struct MicroBatch {
    ConstTensor tokens_T;     // int32
    ConstTensor targets_T;    // int32, -1: no loss here
    ConstTensor positions_T;  // int32, in the token's own sequence
    ConstTensor weights_T;    // fp32: what a token's loss counts in the loss of the iteration
    std::vector<kernels::AttentionSpan> spans;  // the packed sequences

    std::int64_t num_tokens() const { return tokens_T.dim(0); }
};

}  // namespace dcp::model
