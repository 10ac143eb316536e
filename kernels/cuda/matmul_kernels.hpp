// The kernels of matmul as host code calls them.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/target.hpp"

namespace dcp::kernels::cuda {

struct MatmulProblem {
    Rows a;
    Rows b;
    Target c;
    std::int64_t num_rows = 0;     // M
    std::int64_t num_columns = 0;  // N
    std::int64_t depth = 0;        // K
    bool c_has_pairs = false;      // two neighbours from an even column on are one aligned access
};

void launch_matmul_bf16(cudaStream_t stream,
                        const MatmulProblem& problem,
                        Stored a_stored,
                        Stored b_stored);
void launch_matmul_fp32(cudaStream_t stream,
                        const MatmulProblem& problem,
                        Stored a_stored,
                        Stored b_stored);

}  // namespace dcp::kernels::cuda
