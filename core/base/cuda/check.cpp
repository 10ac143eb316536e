#include "core/base/cuda/check.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::cuda {

void check(cudaError_t error, std::string_view call) {
    if (error != cudaSuccess) {
        throw CudaError(fmt::format("CUDA: {} failed with {} ({})", call, cudaGetErrorName(error),
                                    cudaGetErrorString(error)));
    }
}

void check_launch(std::string_view kernel_name, [[maybe_unused]] cudaStream_t stream) {
    check(cudaGetLastError(), fmt::format("launch of {}", kernel_name));
#ifdef DCP_SYNC_LAUNCHES
    check(cudaStreamSynchronize(stream), fmt::format("kernel {}", kernel_name));
#endif
}

}  // namespace dcp::cuda
