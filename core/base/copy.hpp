// Moving bytes between host memory and the memory of a queue's device. The only places where host
// code looks at tensor data.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp {

// Contiguous tensor, as many bytes as the span. Ordered on the queue; the source may be reused when
// the call returns.
void copy_to_device(Queue& queue, Tensor target, std::span<const std::byte> source);
// Waits for the queue, then copies.
void copy_to_host(Queue& queue, std::span<std::byte> target, ConstTensor source);

// The float64 that a sum has left in an 8-byte tensor (kernels/optimizer.hpp).
double read_float64(Queue& queue, ConstTensor scalar);

}  // namespace dcp
