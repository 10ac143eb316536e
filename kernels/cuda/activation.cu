// SwiGLU, GELU and addition, forward and backward, element by element (kernels/activation.hpp).
//
//   SwiGLU y = silu(gate) up,  d_gate = d_y up s (1 + gate (1 - s)),  d_up = d_y silu(gate)
//   GELU   y = x/2 (1 + tanh u),  u = sqrt(2/pi) (x + 0.044715 x^3),  and its derivative
//
// Shapes: gate_up [T, 2F] (gates, then ups), everything else [T, F] or [T, C], each of either type.
// Threads: one a vector of eight elements of a row, row after row. A thread reads all that it needs
// before it writes, so results may lie in the place of operands.
// Memory: every operand and every result once. 1 + tanh(u) is 2 s(2u) with s the logistic function.
#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kElementThreads = 128;

__device__ __forceinline__ float logistic(float x) {
    return 1.0F / (1.0F + expf(-x));
}

// A vector of the [T, columns] elements of an operation.
struct Place {
    std::int64_t row;
    int column;
};
__device__ __forceinline__ Place place_of(std::int64_t num_rows, int columns) {
    const std::int64_t vectors = (columns + kVector - 1) / kVector;
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + thread_index();
    const std::int64_t row = i / vectors;
    // Past the last row: a column past the end, where nothing is loaded or stored.
    return {row, row < num_rows ? static_cast<int>(i % vectors) * kVector : columns};
}

struct SwiGluArgs {
    Rows gate_up;
    Rows d_y;
    Target out;  // y, or d_gate_up
    std::int64_t num_rows = 0;
    int columns = 0;  // F
};

// The ups of a row as a matrix of their own.
__device__ __forceinline__ Rows ups_of(const Rows& gate_up, int columns) {
    Rows ups = gate_up;
    ups.data = static_cast<const char*>(gate_up.data) +
               static_cast<std::int64_t>(columns) * (gate_up.is_bf16 ? 2 : 4);
    return ups;
}
__device__ __forceinline__ Target ups_of(const Target& gate_up, int columns) {
    Target ups = gate_up;
    ups.data = static_cast<char*>(gate_up.data) +
               static_cast<std::int64_t>(columns) * (gate_up.is_bf16 ? 2 : 4);
    return ups;
}

__global__ void __launch_bounds__(kElementThreads) swiglu_forward_kernel(const SwiGluArgs args) {
    const Place at = place_of(args.num_rows, args.columns);
    float gate[kVector];
    float up[kVector];
    load_vector(args.gate_up, at.row, at.column, args.columns, gate);
    load_vector(ups_of(args.gate_up, args.columns), at.row, at.column, args.columns, up);
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        up[i] *= gate[i] * logistic(gate[i]);
    }
    store_vector(args.out, at.row, at.column, args.columns, up);
}

__global__ void __launch_bounds__(kElementThreads) swiglu_backward_kernel(const SwiGluArgs args) {
    const Place at = place_of(args.num_rows, args.columns);
    float gate[kVector];
    float up[kVector];
    float d_y[kVector];
    load_vector(args.gate_up, at.row, at.column, args.columns, gate);
    load_vector(ups_of(args.gate_up, args.columns), at.row, at.column, args.columns, up);
    load_vector(args.d_y, at.row, at.column, args.columns, d_y);
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        const float s = logistic(gate[i]);
        const float d_gate = d_y[i] * up[i] * s * (1.0F + gate[i] * (1.0F - s));
        up[i] = d_y[i] * gate[i] * s;
        gate[i] = d_gate;
    }
    store_vector(args.out, at.row, at.column, args.columns, gate);
    store_vector(ups_of(args.out, args.columns), at.row, at.column, args.columns, up);
}

struct ElementArgs {
    Rows a;
    Rows b;
    Target out;
    std::int64_t num_rows = 0;
    int columns = 0;
};

constexpr float kGeluScale = 0.79788456080286535588F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

struct GeluForwardOf {
    static __device__ __forceinline__ float apply(float x, float /*unused*/) {
        const float u = kGeluScale * (x + kGeluCubic * x * x * x);
        return x * logistic(2.0F * u);
    }
};

// a: d_y, b: x. With s = logistic(2u): (1 + tanh u) / 2 = s, (1 - tanh^2 u) / 2 = 2 s (1 - s).
struct GeluBackwardOf {
    static __device__ __forceinline__ float apply(float d_y, float x) {
        const float u = kGeluScale * (x + kGeluCubic * x * x * x);
        const float s = logistic(2.0F * u);
        const float slope = kGeluScale * (1.0F + 3.0F * kGeluCubic * x * x);
        return d_y * (s + 2.0F * x * s * (1.0F - s) * slope);
    }
};

struct AddOf {
    static __device__ __forceinline__ float apply(float a, float b) { return a + b; }
};

template <class Operation>
__global__ void __launch_bounds__(kElementThreads) element_kernel(const ElementArgs args) {
    const Place at = place_of(args.num_rows, args.columns);
    float a[kVector];
    float b[kVector];
    load_vector(args.a, at.row, at.column, args.columns, a);
    load_vector(args.b, at.row, at.column, args.columns, b);
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        a[i] = Operation::apply(a[i], b[i]);
    }
    store_vector(args.out, at.row, at.column, args.columns, a);
}

unsigned element_blocks(std::int64_t num_rows, std::int64_t columns) {
    const std::int64_t vectors = num_rows * ((columns + kVector - 1) / kVector);
    return static_cast<unsigned>((vectors + kElementThreads - 1) / kElementThreads);
}

template <class Operation>
void launch_elements(
    Queue& queue, const char* name, const ConstTensor& a, const ConstTensor& b, const Tensor& out) {
    const ElementArgs args{.a = rows_of(a),
                           .b = rows_of(b),
                           .out = target_of(out),
                           .num_rows = out.dim(0),
                           .columns = static_cast<int>(out.dim(1))};
    if (out.num_elems() == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(element_kernel<Operation>, element_blocks(args.num_rows, args.columns),
               kElementThreads, 0, stream, args);
    dcp::cuda::check_launch(name, stream);
}

}  // namespace

void swiglu_forward(Queue& queue, const SwiGluForward& args) {
    const SwiGluArgs swiglu{.gate_up = rows_of(args.gate_up_TF),
                            .out = target_of(args.y_TF),
                            .num_rows = args.y_TF.dim(0),
                            .columns = static_cast<int>(args.y_TF.dim(1))};
    if (args.y_TF.num_elems() == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(swiglu_forward_kernel, element_blocks(swiglu.num_rows, swiglu.columns),
               kElementThreads, 0, stream, swiglu);
    dcp::cuda::check_launch("swiglu_forward", stream);
}

void swiglu_backward(Queue& queue, const SwiGluBackward& args) {
    const SwiGluArgs swiglu{.gate_up = rows_of(args.gate_up_TF),
                            .d_y = rows_of(args.d_y_TF),
                            .out = target_of(args.d_gate_up_TF),
                            .num_rows = args.d_y_TF.dim(0),
                            .columns = static_cast<int>(args.d_y_TF.dim(1))};
    if (args.d_y_TF.num_elems() == 0) {
        return;
    }
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(swiglu_backward_kernel, element_blocks(swiglu.num_rows, swiglu.columns),
               kElementThreads, 0, stream, swiglu);
    dcp::cuda::check_launch("swiglu_backward", stream);
}

void gelu_forward(Queue& queue, const GeluForward& args) {
    launch_elements<GeluForwardOf>(queue, "gelu_forward", args.x_TF, args.x_TF, args.y_TF);
}

void gelu_backward(Queue& queue, const GeluBackward& args) {
    launch_elements<GeluBackwardOf>(queue, "gelu_backward", args.d_y_TF, args.x_TF, args.d_x_TF);
}

void add(Queue& queue, const Add& args) {
    launch_elements<AddOf>(queue, "add", args.a_TC, args.b_TC, args.y_TC);
}

}  // namespace dcp::kernels::cuda
