// Kernel launches: the limits of the hardware are checked at once, the blocks run when the stream
// gets there (runtime.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>

#include "tests/cuda_emu/runtime.hpp"
#include "tests/cuda_emu/vector_types.hpp"

namespace cuda_emu {

// Puts the launch on the stream; `kernel` identifies the kernel for its attributes.
void enqueue_launch(const void* kernel,
                    dim3 grid,
                    dim3 threads,
                    std::size_t shared_bytes,
                    cudaStream_t stream,
                    std::function<void()> body);

// Arguments are converted to the parameters' types and kept by value, as a launch does.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...),
            dim3 grid,
            dim3 threads,
            std::size_t shared_bytes,
            cudaStream_t stream,
            Arguments&&... arguments) {
    std::tuple<std::decay_t<Parameters>...> kept(static_cast<Parameters>(arguments)...);
    enqueue_launch(reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes, stream,
                   [kernel, kept] { std::apply(kernel, kept); });
}

}  // namespace cuda_emu
