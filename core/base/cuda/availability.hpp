// Whether this build has CUDA and this machine a GPU that it can use. Never throws, starts nothing,
// and works in every build.
#pragma once

#include <string>

namespace dcp::cuda {

struct Availability {
    bool is_built = false;   // kernels for GPUs are part of the program
    bool is_usable = false;  // and there is a GPU that runs them
    int num_devices = 0;
    std::string description;  // "not built in"; "built in (CUDA 13.0), but there is no driver here"
};
Availability availability();

}  // namespace dcp::cuda
