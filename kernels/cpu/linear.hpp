// CPU backend of linear.hpp and head_loss.hpp; arguments have been checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/head_loss.hpp"
#include "kernels/linear.hpp"

namespace dcp::kernels::cpu {

bool supports_dtype(DType dtype);

std::size_t linear_prepared_bytes(DType dtype, std::int64_t N, std::int64_t K);
void linear_prepare(Queue& queue, ConstTensor master_NK, const LinearWeight& weight);

std::size_t linear_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K);
void linear_forward(Queue& queue, const LinearForward& args);
void linear_backward_input(Queue& queue, const LinearBackwardInput& args);
void linear_backward_weight(Queue& queue, const LinearBackwardWeight& args);

std::size_t head_loss_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t V, std::int64_t C);
void head_loss(Queue& queue, const HeadLoss& args);

}  // namespace dcp::kernels::cpu
