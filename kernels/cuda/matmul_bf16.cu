// C (+)= op(A) op(B) in bf16 on tensor cores: c[m,n] = sum_k A[m,k] B[k,n], accumulated in fp32.
//
// Shapes: any M, N, K; A and B stored plain or transposed (not both transposed), rows at multiples
// of 16 bytes; C fp32 or bf16, any row stride. Threads: one block = 64 x 64 of C, four warps of 32
// x 32 each; steps of 32 in K, double-buffered by cp.async with one __syncthreads a step. Tiles
// keep the order in which the operand is stored; ldmatrix with or without .trans turns them into
// fragments. Memory: A once for every 64 columns of C, B once for every 64 rows, C once.
// Deterministic.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/matmul_kernels.hpp"
#include "kernels/cuda/store.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kTileRows = 64;  // of C, and its columns
constexpr int kDepthStep = 32;
constexpr int kMatmulThreads = 128;
constexpr int kWarpRows = 32;  // of C, and its columns

// A tile of an operand: 64 positions along C, kDepthStep along K, in the order of storage.
// kAlongDepth: a stored row runs along K.
template <bool kAlongDepth>
struct OperandTile {
    static constexpr int kColumns = kAlongDepth ? kDepthStep : kTileRows;
    static constexpr int kRows = kAlongDepth ? kTileRows : kDepthStep;
    using Layout = Tile<bf16, kColumns>;
    using Operands = Fragments<kColumns>;
    static constexpr int kElems = kRows * Layout::kRowElems;

    // position: along C; depth: along K; both multiples of the tile's sizes.
    static __device__ __forceinline__ void load(bf16* tile,
                                                const Rows& operand,
                                                std::int64_t position,
                                                std::int64_t depth,
                                                std::int64_t num_positions,
                                                std::int64_t num_depth) {
        const std::int64_t row = kAlongDepth ? position : depth;
        const std::int64_t column = kAlongDepth ? depth : position;
        const std::int64_t rows_left = (kAlongDepth ? num_positions : num_depth) - row;
        const std::int64_t columns_left = (kAlongDepth ? num_depth : num_positions) - column;
        Layout::template load_async<kRows, kMatmulThreads>(
            tile, static_cast<const bf16*>(operand.data) + row * operand.stride + column,
            operand.stride, static_cast<int>(min(rows_left, std::int64_t{kRows})),
            static_cast<int>(min(columns_left, std::int64_t{kColumns})));
    }
    static __device__ __forceinline__ void fragment_a(std::uint32_t (&a)[4],
                                                      const bf16* tile,
                                                      int row,
                                                      int k) {
        if constexpr (kAlongDepth) {
            Operands::load_a(a, tile, row, k);
        } else {
            Operands::load_a_transposed(a, tile, row, k);
        }
    }
    static __device__ __forceinline__ void fragment_b(std::uint32_t (&b)[4],
                                                      const bf16* tile,
                                                      int k,
                                                      int column) {
        if constexpr (kAlongDepth) {
            Operands::load_b_transposed(b, tile, k, column);
        } else {
            Operands::load_b(b, tile, k, column);
        }
    }
};

__device__ __forceinline__ void store_one(const Target& c, std::int64_t elem, float value) {
    if (c.is_bf16) {
        bf16* const at = static_cast<bf16*>(c.data) + elem;
        *at = __float2bfloat16_rn((c.accumulates ? __bfloat162float(*at) : 0.0F) + value);
    } else {
        float* const at = static_cast<float*>(c.data) + elem;
        *at = (c.accumulates ? *at : 0.0F) + value;
    }
}

// Columns `column` and the next, as far as they exist.
__device__ __forceinline__ void store_some(const MatmulProblem& problem,
                                           std::int64_t row,
                                           std::int64_t column,
                                           float first,
                                           float second) {
    const std::int64_t elem = row * problem.c.stride + column;
    const bool has_second = column + 1 < problem.num_columns;
    if (problem.c_has_pairs && has_second) {
        store_pair(problem.c, elem, first, second);
        return;
    }
    store_one(problem.c, elem, first);
    if (has_second) {
        store_one(problem.c, elem + 1, second);
    }
}

template <bool kAAlongDepth, bool kBAlongDepth>
__global__ void __launch_bounds__(kMatmulThreads) matmul_bf16_kernel(const MatmulProblem problem) {
    using TileA = OperandTile<kAAlongDepth>;
    using TileB = OperandTile<kBAlongDepth>;
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTileRows;
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kTileRows;
    const int num_steps = static_cast<int>((problem.depth + kDepthStep - 1) / kDepthStep);

    DCP_SHARED(bf16, shared);
    bf16* const a_tiles = shared;
    bf16* const b_tiles = a_tiles + 2 * TileA::kElems;
    const auto load_step = [&](int step) {
        const std::int64_t depth = static_cast<std::int64_t>(step) * kDepthStep;
        TileA::load(a_tiles + step % 2 * TileA::kElems, problem.a, row, depth, problem.num_rows,
                    problem.depth);
        TileB::load(b_tiles + step % 2 * TileB::kElems, problem.b, column, depth,
                    problem.num_columns, problem.depth);
    };
    if (num_steps > 0) {
        load_step(0);
    }
    ptx::cp_async_commit();

    const int warp_row = warp_index() / 2 * kWarpRows;
    const int warp_column = warp_index() % 2 * kWarpRows;
    float acc[2][kWarpRows / 8][4];
    set_zero(acc[0]);
    set_zero(acc[1]);
    for (int step = 0; step < num_steps; step++) {
        ptx::cp_async_wait<0>();
        __syncthreads();  // this step has arrived, and every warp has read the one before
        if (step + 1 < num_steps) {
            load_step(step + 1);
        }
        ptx::cp_async_commit();

        const bf16* const a_tile = a_tiles + step % 2 * TileA::kElems;
        const bf16* const b_tile = b_tiles + step % 2 * TileB::kElems;
#pragma unroll
        for (int k = 0; k < kDepthStep; k += 16) {
            std::uint32_t a[2][4];
            TileA::fragment_a(a[0], a_tile, warp_row, k);
            TileA::fragment_a(a[1], a_tile, warp_row + 16, k);
#pragma unroll
            for (int n = 0; n < kWarpRows / 8; n += 2) {
                std::uint32_t b[4];
                TileB::fragment_b(b, b_tile, k, warp_column + 8 * n);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    ptx::mma_m16n8k16_bf16(acc[half][n], a[half], b[0], b[1]);
                    ptx::mma_m16n8k16_bf16(acc[half][n + 1], a[half], b[2], b[3]);
                }
            }
        }
    }

    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int n = 0; n < kWarpRows / 8; n++) {
            const std::int64_t c_column = column + warp_column + 8 * n + 2 * t;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const std::int64_t c_row = row + warp_row + 16 * half + g + 8 * r;
                if (c_row < problem.num_rows && c_column < problem.num_columns) {
                    store_some(problem, c_row, c_column, acc[half][n][2 * r],
                               acc[half][n][2 * r + 1]);
                }
            }
        }
    }
}

template <bool kAAlongDepth, bool kBAlongDepth>
void launch(cudaStream_t stream, const MatmulProblem& problem) {
    constexpr int kSharedBytes =
        2 * (OperandTile<kAAlongDepth>::kElems + OperandTile<kBAlongDepth>::kElems) *
        static_cast<int>(sizeof(bf16));
    const dim3 grid(static_cast<unsigned>((problem.num_rows + kTileRows - 1) / kTileRows),
                    static_cast<unsigned>((problem.num_columns + kTileRows - 1) / kTileRows));
    DCP_LAUNCH((matmul_bf16_kernel<kAAlongDepth, kBAlongDepth>), grid, kMatmulThreads, kSharedBytes,
               stream, problem);
    dcp::cuda::check_launch("matmul_bf16", stream);
}

}  // namespace

void launch_matmul_bf16(cudaStream_t stream,
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
