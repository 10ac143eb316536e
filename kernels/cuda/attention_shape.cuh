// What the attention kernels have in common: tile sizes, and the choice of the instance that a head
// dimension and an element type need.
#pragma once

#include "core/base/dtype.hpp"
#include "core/base/errors.hpp"
#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/store.cuh"
#include "kernels/cuda/tile.cuh"

namespace dcp::kernels::cuda {

inline constexpr float kLog2E = 1.44269504088896340736F;

// Four warps of 16 rows each.
inline constexpr int kAttentionWarps = kAttentionTileRows / 16;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarpThreads;

// Calls run.template operator()<T, D>() with the smallest instance D that has room for the head;
// the columns from head_dim to D are zero in shared memory and never stored.
template <class Run>
void for_attention_instance(DType dtype, int head_dim, Run run) {
    const auto for_dim = [&]<class T>(T /*element*/) {
        if (head_dim <= 64) {
            run.template operator()<T, 64>();
        } else if (head_dim <= 80) {
            run.template operator()<T, 80>();
        } else if (head_dim <= 96) {
            run.template operator()<T, 96>();
        } else if (head_dim <= 128) {
            run.template operator()<T, 128>();
        } else {
            throw UnsupportedError("attention: head dimensions above 128 have no CUDA kernel");
        }
    };
    if (dtype == DType::kBFloat16) {
        for_dim(bf16{});
    } else {
        for_dim(float{});
    }
}

inline dim3 attention_grid(const AttentionProblem& problem, int num_heads) {
    return dim3(static_cast<unsigned>(problem.num_tiles), static_cast<unsigned>(num_heads));
}

// Rows of K and V a step: the fp32 tiles of sm_80's 163 KiB of shared memory are half as long.
template <class T>
inline constexpr int kKeyStep = sizeof(T) == 2 ? 64 : 32;

}  // namespace dcp::kernels::cuda
