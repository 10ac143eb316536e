// Of a build without CUDA.
#include "core/base/cuda/availability.hpp"

namespace dcp::cuda {

Availability availability() {
    return {.description = "not built in"};
}

}  // namespace dcp::cuda
