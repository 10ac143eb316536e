// The kernels of exchange_heads.hpp as its host code calls them.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/cuda/target.hpp"

namespace dcp::kernels::cuda {

struct HeadsProblem {
    std::int64_t num_tokens = 0;  // > 0
    int peers = 1;
    int all_heads = 1;
    int all_kv_heads = 0;
    int heads = 1;
    int kv_heads = 0;
    int shared_by = 1;
    int group = 1;  // H / G
    int half = 1;   // D / 2
    // Tables of the rotation; data null: none.
    const std::int32_t* positions = nullptr;
    Rows cos_PD;
    Rows sin_PD;
};

void launch_pack_heads(cudaStream_t stream,
                       const HeadsProblem& problem,
                       const Rows& rows_TN,
                       const Target& blocks);
void launch_unpack_heads(cudaStream_t stream,
                         const HeadsProblem& problem,
                         const Rows& blocks,
                         const Target& rows_TN);

}  // namespace dcp::kernels::cuda
