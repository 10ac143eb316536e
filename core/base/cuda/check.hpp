// Every call of the CUDA runtime and every launch is checked, by name.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

namespace dcp::cuda {

// CudaError: the call, CUDA's name of the error and what it says.
void check(cudaError_t error, std::string_view call);

// After a launch: the configuration was accepted. In builds with DCP_SYNC_LAUNCHES also waits for
// the kernel, so that an error inside it is reported with its name.
void check_launch(std::string_view kernel_name, cudaStream_t stream);

// More than 48 KiB of dynamic shared memory has to be asked for, once a kernel; asking again is
// free.
template <class Kernel>
void allow_shared_bytes(std::string_view kernel_name, Kernel* kernel, int bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          kernel_name);
}

}  // namespace dcp::cuda
