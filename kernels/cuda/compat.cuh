// What plain C++ cannot parse, behind three macros, so that the same source is compiled by nvcc
// and, for the emulator of tests/cuda_emu, by the host compiler. Kernels include this and ptx.cuh,
// never CUDA's headers.
//
// Shared memory is dynamic everywhere: the emulator checks its bounds and fills it with NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#if defined(DCP_CUDA_EMULATED)

#include <algorithm>

#define DCP_LAUNCH(kernel, grid, threads, shared_bytes, stream, ...) \
    cuda_emu::launch(kernel, grid, threads, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)
#define DCP_SHARED(T, name) \
    T* const name = reinterpret_cast<T*>(cuda_emu::Block::current()->shared())

namespace dcp::kernels::cuda {
using std::max;
using std::min;
}  // namespace dcp::kernels::cuda

#else

#define DCP_LAUNCH(kernel, grid, threads, shared_bytes, stream, ...) \
    kernel<<<grid, threads, shared_bytes, stream>>>(__VA_ARGS__)
#define DCP_SHARED(T, name)                                             \
    extern __shared__ __align__(128) unsigned char dcp_shared_memory[]; \
    T* const name = reinterpret_cast<T*>(dcp_shared_memory)

#endif

namespace dcp::kernels::cuda {

inline constexpr int kWarpThreads = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;
inline constexpr float kMinusInfinity = -INFINITY;

__device__ __forceinline__ int thread_index() {
    return static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int lane_index() {
    return thread_index() % kWarpThreads;
}
__device__ __forceinline__ int warp_index() {
    return thread_index() / kWarpThreads;
}

}  // namespace dcp::kernels::cuda
