// The CUDA backend of a build without CUDA: nobody can make a queue for it, so nothing of this
// runs.
#include "kernels/cuda/attention.hpp"

#include "core/base/errors.hpp"

namespace dcp::kernels::cuda {

namespace {

[[noreturn]] void refuse() {
    throw UnsupportedError("this build has no CUDA backend; use device: cpu");
}

}  // namespace

void attention_forward(Queue& /*queue*/, const AttentionForward& /*args*/) {
    refuse();
}
void attention_backward(Queue& /*queue*/, const AttentionBackward& /*args*/) {
    refuse();
}
void attention_merge(Queue& /*queue*/, const AttentionMerge& /*args*/) {
    refuse();
}
std::size_t attention_forward_workspace_bytes(const AttentionSizes& /*sizes*/) {
    refuse();
}
std::size_t attention_backward_workspace_bytes(const AttentionSizes& /*sizes*/) {
    refuse();
}

}  // namespace dcp::kernels::cuda
