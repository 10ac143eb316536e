// C (+)= op(A) op(B) in fp32 by FMA: c[m,n] = sum_k A[m,k] B[k,n], k in order.
//
// Shapes: any M, N, K; A and B stored plain or transposed, any row stride; C fp32.
// Threads: one block of 256 threads = 64 x 64 of C, a thread 4 x 4; steps of 16 in K through shared
// memory. Neighbouring threads load neighbours along the operand's stored rows.
// Memory: A once for every 64 columns of C, B once for every 64 rows, C once. Deterministic.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/matmul_kernels.hpp"
#include "kernels/cuda/store.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kTileRows = 64;  // of C, and its columns
constexpr int kDepthStep = 16;
constexpr int kMatmulThreads = 256;
constexpr int kPerThread = 4;
// A tile is kept as [depth][position]; four elements more a row leave 16-byte alignment alone and
// spread the transposing stores over the banks.
constexpr int kTilePitch = kTileRows + 4;

template <bool kAlongDepth>
__device__ __forceinline__ void load_tile(float* tile,
                                          const Rows& operand,
                                          std::int64_t position,
                                          std::int64_t depth,
                                          std::int64_t num_positions,
                                          std::int64_t num_depth) {
    const auto* const source = static_cast<const float*>(operand.data);
    for (int i = thread_index(); i < kTileRows * kDepthStep; i += kMatmulThreads) {
        const int p = kAlongDepth ? i / kDepthStep : i % kTileRows;
        const int k = kAlongDepth ? i % kDepthStep : i / kTileRows;
        const bool exists = position + p < num_positions && depth + k < num_depth;
        const std::int64_t at = kAlongDepth ? (position + p) * operand.stride + depth + k
                                            : (depth + k) * operand.stride + position + p;
        tile[k * kTilePitch + p] = exists ? source[at] : 0.0F;
    }
}

template <bool kAAlongDepth, bool kBAlongDepth>
__global__ void __launch_bounds__(kMatmulThreads, 2)
    matmul_fp32_kernel(const MatmulProblem problem) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTileRows;
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kTileRows;
    const int m0 = thread_index() / 16 * kPerThread;
    const int n0 = thread_index() % 16 * kPerThread;
    DCP_SHARED(float, shared);
    float* const a_tile = shared;
    float* const b_tile = a_tile + kDepthStep * kTilePitch;
    float acc[kPerThread][kPerThread];
    set_zero(acc);
    for (std::int64_t depth = 0; depth < problem.depth; depth += kDepthStep) {
        load_tile<kAAlongDepth>(a_tile, problem.a, row, depth, problem.num_rows, problem.depth);
        load_tile<kBAlongDepth>(b_tile, problem.b, column, depth, problem.num_columns,
                                problem.depth);
        __syncthreads();  // the tiles are there
#pragma unroll 4          // sixteen would take more registers than they are worth
        for (int k = 0; k < kDepthStep; k++) {
            const float4 a = *reinterpret_cast<const float4*>(a_tile + k * kTilePitch + m0);
            const float4 b = *reinterpret_cast<const float4*>(b_tile + k * kTilePitch + n0);
            const float a_of[kPerThread] = {a.x, a.y, a.z, a.w};
            const float b_of[kPerThread] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int m = 0; m < kPerThread; m++) {
#pragma unroll
                for (int n = 0; n < kPerThread; n++) {
                    acc[m][n] = fmaf(a_of[m], b_of[n], acc[m][n]);
                }
            }
        }
        __syncthreads();  // everybody has read them
    }
    auto* const c = static_cast<float*>(problem.c.data);
#pragma unroll
    for (int m = 0; m < kPerThread; m++) {
#pragma unroll
        for (int n = 0; n < kPerThread; n++) {
            if (row + m0 + m < problem.num_rows && column + n0 + n < problem.num_columns) {
                float* const at = c + (row + m0 + m) * problem.c.stride + column + n0 + n;
                *at = (problem.c.accumulates ? *at : 0.0F) + acc[m][n];
            }
        }
    }
}

template <bool kAAlongDepth, bool kBAlongDepth>
void launch(cudaStream_t stream, const MatmulProblem& problem) {
    constexpr int kSharedBytes = 2 * kDepthStep * kTilePitch * static_cast<int>(sizeof(float));
    const dim3 grid(static_cast<unsigned>((problem.num_rows + kTileRows - 1) / kTileRows),
                    static_cast<unsigned>((problem.num_columns + kTileRows - 1) / kTileRows));
    DCP_LAUNCH((matmul_fp32_kernel<kAAlongDepth, kBAlongDepth>), grid, kMatmulThreads, kSharedBytes,
               stream, problem);
    dcp::cuda::check_launch("matmul_fp32", stream);
}

}  // namespace

void launch_matmul_fp32(cudaStream_t stream,
                        const MatmulProblem& problem,
                        Stored a_stored,
                        Stored b_stored) {
    if (a_stored == Stored::kTransposed) {
        launch<false, false>(stream, problem);
    } else if (b_stored == Stored::kTransposed) {
        launch<true, true>(stream, problem);
    } else {
        launch<true, false>(stream, problem);
    }
}

}  // namespace dcp::kernels::cuda
