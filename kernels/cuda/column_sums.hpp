// Sums over tokens in a fixed order: a kernel leaves one partial row a block of tokens, and these
// are added up here.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/grad_mode.hpp"

namespace dcp::kernels::cuda {

// out[c] (+)= partial[0][c] + partial[1][c] + ...
void launch_column_sums(cudaStream_t stream,
                        const float* partial_BC,
                        std::int64_t num_blocks,
                        std::int64_t num_columns,
                        float* out_C,
                        GradMode mode);

}  // namespace dcp::kernels::cuda
