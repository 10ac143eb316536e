#include "core/base/cuda/availability.hpp"

#include <cuda_runtime_api.h>

#include <fmt/format.h>

namespace dcp::cuda {

namespace {

// The oldest GPUs that the kernels are compiled for.
constexpr int kOldestMajor = 8;

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Availability availability() {
    Availability found{.is_built = true};
    int runtime = 0;
    int driver = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));  // never fails
    static_cast<void>(cudaDriverGetVersion(&driver));    // 0 without a driver
    const std::string built = fmt::format("built in (CUDA {})", version_text(runtime));
    if (driver == 0) {
        found.description = built + ", but there is no NVIDIA driver here";
        return found;
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        static_cast<void>(cudaGetLastError());  // asked for here, so not an error of a later call
        found.description = error == cudaErrorInsufficientDriver
                                ? fmt::format("{}, but the driver is for CUDA {} at most", built,
                                              version_text(driver))
                                : fmt::format("{}, but there is no GPU here", built);
        return found;
    }
    found.num_devices = count;
    int major = 0;
    found.is_usable =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
        major >= kOldestMajor;
    found.description = found.is_usable
                            ? fmt::format("{}, {} GPU{}", built, count, count == 1 ? "" : "s")
                            : fmt::format("{}, but the GPU is older than compute capability {}.0",
                                          built, kOldestMajor);
    return found;
}

}  // namespace dcp::cuda
