// What the linear layers and the end of the model share on a GPU: workspaces cut into parts, and
// operands in the shape that products take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "kernels/linear.hpp"

namespace dcp::kernels::cuda {

// Cuts a workspace into matrices that start at multiples of 256 bytes; without memory it counts.
class WorkspaceParts {
public:
    explicit WorkspaceParts(void* begin);
    // bf16 rows are padded to multiples of 16 bytes.
    Tensor take(DType dtype, std::int64_t rows, std::int64_t columns);
    Tensor take_bytes(std::size_t bytes);
    // Of what was taken, wherever the workspace begins.
    std::size_t needed_bytes() const;

private:
    void* take_memory(std::int64_t bytes);

    std::byte* begin_;
    std::int64_t used_ = 0;
};

// Elements from row to row where bf16 rows start at multiples of 16 bytes.
std::int64_t padded_columns(DType dtype, std::int64_t columns);

// The weight as a matrix [N, K].
ConstTensor weight_matrix(const LinearWeight& weight);

// The tensor itself where products can read it, else its copy in `room`.
ConstTensor as_operand(Queue& queue, const ConstTensor& tensor, const Tensor& room);

enum class Statistics : std::uint8_t { kWrite, kRead };

// f(x) of input.x into `room`; x itself where f is nothing.
ConstTensor input_forward(Queue& queue,
                          const LinearInput& input,
                          Statistics statistics,
                          const Tensor& room);

// d_x from the gradient of f(x); not for kPlain. partials: LayerNorm's workspace.
struct InputBackward {
    ConstTensor d_f;
    ConstTensor residual;  // optional
    Tensor d_x;
    Tensor d_norm_weight;
    Tensor d_norm_bias;
    Tensor partials;
};
void input_backward(Queue& queue, const LinearInput& input, const InputBackward& args);

}  // namespace dcp::kernels::cuda
