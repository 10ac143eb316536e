// For destructors: what goes wrong there is said, not thrown.
#pragma once

#include <cstdio>

#include <cuda_runtime_api.h>

namespace dcp::cuda {

inline void log_failure(cudaError_t error, const char* call) noexcept {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s failed with %s (%s)\n", call, cudaGetErrorName(error),
                     cudaGetErrorString(error));
    }
}

}  // namespace dcp::cuda
