// Linear layers of a build without CUDA: nobody can make a queue for it, so nothing of this runs.
#include "kernels/cuda/linear.hpp"

#include "core/base/errors.hpp"

namespace dcp::kernels::cuda {

namespace {

[[noreturn]] void refuse() {
    throw UnsupportedError("this build has no CUDA backend; use device: cpu");
}

}  // namespace

std::size_t linear_prepared_bytes(DType /*dtype*/, std::int64_t /*N*/, std::int64_t /*K*/) {
    refuse();
}
std::size_t linear_workspace_bytes(DType /*dtype*/,
                                   std::int64_t /*T*/,
                                   std::int64_t /*N*/,
                                   std::int64_t /*K*/) {
    refuse();
}
void linear_prepare(Queue& /*queue*/, ConstTensor /*master_NK*/, const LinearWeight& /*weight*/) {
    refuse();
}
void linear_forward(Queue& /*queue*/, const LinearForward& /*args*/) {
    refuse();
}
void linear_backward_input(Queue& /*queue*/, const LinearBackwardInput& /*args*/) {
    refuse();
}
void linear_backward_weight(Queue& /*queue*/, const LinearBackwardWeight& /*args*/) {
    refuse();
}
void head_loss(Queue& /*queue*/, const HeadLoss& /*args*/) {
    refuse();
}
std::size_t head_loss_workspace_bytes(DType /*dtype*/,
                                      std::int64_t /*T*/,
                                      std::int64_t /*V*/,
                                      std::int64_t /*C*/) {
    refuse();
}

}  // namespace dcp::kernels::cuda
