// The kernels of attention as host code calls them: one function a kernel, each in a source of its
// own (attention_*.cu) that says how the work is laid out on the threads.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/base/dtype.hpp"
#include "kernels/cuda/attention_tiles.hpp"
#include "kernels/cuda/target.hpp"

namespace dcp::kernels::cuda {

// What all kernels of one call share.
struct AttentionProblem {
    const AttentionTile* tiles = nullptr;  // device memory
    std::int64_t num_tiles = 0;
    Rows q;
    Rows k;
    Rows v;
    std::int64_t num_queries = 0;  // length of a row of lse and delta: [H, Tq]
    int num_heads = 0;
    int heads_per_group = 1;  // query heads that share a key/value head
    int head_dim = 0;
    float scale = 1;
};

// dtype: of q, k, v, o and d_o.
void launch_attention_forward(cudaStream_t stream,
                              DType dtype,
                              const AttentionProblem& problem,
                              const Target& o,
                              float* lse_HT);

// delta[h][i] = o[i][h] . d_o[i][h] for the queries of the tiles
void launch_attention_delta(cudaStream_t stream,
                            DType dtype,
                            const AttentionProblem& problem,
                            const Rows& o,
                            const Rows& d_o,
                            float* delta_HT);

void launch_attention_dq(cudaStream_t stream,
                         DType dtype,
                         const AttentionProblem& problem,
                         const Rows& d_o,
                         const float* lse_HT,
                         const float* delta_HT,
                         const Target& d_q);

// `problem.tiles` are tiles of keys.
void launch_attention_dkdv(cudaStream_t stream,
                           DType dtype,
                           const AttentionProblem& problem,
                           const Rows& d_o,
                           const float* lse_HT,
                           const float* delta_HT,
                           const Target& d_k,
                           const Target& d_v);

}  // namespace dcp::kernels::cuda
