// The CUDA backend of kernels/linear.hpp and kernels/head_loss.hpp: the same functions, arguments
// already checked. What stands in front of a product is made once into the workspace; products are
// those of matmul.hpp. A prepared weight is a copy in the compute type, bf16 rows padded to 16
// bytes; activations whose bf16 rows do not start there are copied likewise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/base/queue.hpp"
#include "kernels/head_loss.hpp"
#include "kernels/linear.hpp"

namespace dcp::kernels::cuda {

std::size_t linear_prepared_bytes(DType dtype, std::int64_t N, std::int64_t K);
std::size_t linear_workspace_bytes(DType dtype, std::int64_t T, std::int64_t N, std::int64_t K);
void linear_prepare(Queue& queue, ConstTensor master_NK, const LinearWeight& weight);
void linear_forward(Queue& queue, const LinearForward& args);
void linear_backward_input(Queue& queue, const LinearBackwardInput& args);
void linear_backward_weight(Queue& queue, const LinearBackwardWeight& args);

void head_loss(Queue& queue, const HeadLoss& args);
std::size_t head_loss_workspace_bytes(DType dtype, std::int64_t T, std::int64_t V, std::int64_t C);

}  // namespace dcp::kernels::cuda
