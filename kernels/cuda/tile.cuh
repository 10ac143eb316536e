// Tiles [rows][D] in shared memory and the products of tiles, for bf16 (tensor cores) and fp32
// (FMA) with one layout of accumulators, so that a kernel is written once for both.
//
// A row is stored as chunks of 16 bytes. Eight rows at the same chunk, which is what one phase of
// ldmatrix reads, must lie in eight different groups of four banks: where the chunks of a row are a
// multiple of 8, chunk c of row r is stored at place c ^ (r % 8); otherwise rows are an odd number
// of chunks apart.
//
// Accumulators acc[N][4] of a warp hold 16 rows and 8 N columns: lane (g = lane / 4, t = lane % 4)
// has columns 8n + 2t and the next of row g in acc[n][0..1] and of row g + 8 in acc[n][2..3].
#pragma once

#include "kernels/cuda/ptx.cuh"

namespace dcp::kernels::cuda {

template <class T, int D>
struct Tile {
    static constexpr int kChunkElems = 16 / static_cast<int>(sizeof(T));
    static constexpr int kChunks = D / kChunkElems;
    static constexpr bool kIsSwizzled = sizeof(T) == 2 && kChunks % 8 == 0;
    static constexpr int kRowElems = (kIsSwizzled ? kChunks : kChunks | 1) * kChunkElems;

    static __device__ __forceinline__ int at(int row, int chunk) {
        return row * kRowElems + (kIsSwizzled ? chunk ^ (row & 7) : chunk) * kChunkElems;
    }

    // Starts to load rows [0, Rows) of a row-major matrix whose rows have `columns` elements and
    // are `stride` apart. Rows from num_rows on and columns from `columns` on become zero.
    template <int Rows, int Threads>
    static __device__ __forceinline__ void load_async(
        T* tile, const T* source, std::int64_t stride, int num_rows, int columns) {
        constexpr int kTotal = Rows * kChunks;
        const std::int64_t stride_here = hide(stride);
#pragma unroll
        for (int begin = 0; begin < kTotal; begin += Threads) {
            const int i = begin + thread_index();
            if (kTotal % Threads == 0 || i < kTotal) {
                const int row = i / kChunks;
                const int chunk = i % kChunks;
                const int left = min(max(columns - chunk * kChunkElems, 0), kChunkElems);
                const int bytes = row < num_rows ? left * static_cast<int>(sizeof(T)) : 0;
                const T* from = source + (bytes > 0 ? row * stride_here + chunk * kChunkElems : 0);
                ptx::cp_async<16>(tile + at(row, chunk), from, bytes);
            }
        }
    }
};

template <int N>
__device__ __forceinline__ void set_zero(float (&acc)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            acc[n][e] = 0.0F;
        }
    }
}

// The operands of mma from a bf16 tile; r = lane % 8 is the row that a lane names in matrix
// m = lane / 8.
template <int D>
struct Fragments {
    using Layout = Tile<bf16, D>;

    // A, 16x16 at (row, k) of a tile whose rows are those of A.
    static __device__ __forceinline__ void load_a(std::uint32_t (&a)[4],
                                                  const bf16* tile,
                                                  int row,
                                                  int k) {
        const int m = lane_index() / 8;
        const int r = lane_index() % 8;
        ptx::ldmatrix(a, tile + Layout::at(row + m % 2 * 8 + r, k / 8 + m / 2));
    }
    // The same from a tile that holds A transposed (rows = k).
    static __device__ __forceinline__ void load_a_transposed(std::uint32_t (&a)[4],
                                                             const bf16* tile,
                                                             int row,
                                                             int k) {
        const int m = lane_index() / 8;
        const int r = lane_index() % 8;
        ptx::ldmatrix_trans(a, tile + Layout::at(k + m / 2 * 8 + r, row / 8 + m % 2));
    }
    // B of the 8 columns from `column` in b[0..1] and of the next 8 in b[2..3], from a tile that
    // holds B itself (rows = k).
    static __device__ __forceinline__ void load_b(std::uint32_t (&b)[4],
                                                  const bf16* tile,
                                                  int k,
                                                  int column) {
        const int m = lane_index() / 8;
        const int r = lane_index() % 8;
        ptx::ldmatrix_trans(b, tile + Layout::at(k + m % 2 * 8 + r, column / 8 + m / 2));
    }
    // The same from a tile that holds B transposed (rows = columns of B).
    static __device__ __forceinline__ void load_b_transposed(std::uint32_t (&b)[4],
                                                             const bf16* tile,
                                                             int k,
                                                             int column) {
        const int m = lane_index() / 8;
        const int r = lane_index() % 8;
        ptx::ldmatrix(b, tile + Layout::at(column + m / 2 * 8 + r, k / 8 + m % 2));
    }
};

// Products of 16 rows of a warp with a tile. Rows are either kept in registers (loaded once for
// many products) or read from their tile each time.
template <class T, int D>
struct Products;

template <int D>
struct Products<bf16, D> {
    using Operands = Fragments<D>;

    struct Rows {
        std::uint32_t a[D / 16][4];
    };
    static __device__ __forceinline__ void load_rows(Rows& rows, const bf16* tile, int row) {
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            Operands::load_a(rows.a[k], tile, row, 16 * k);
        }
    }

    template <int N>
    static __device__ __forceinline__ void add_step(float (&acc)[N][4],
                                                    const std::uint32_t (&a)[4],
                                                    const bf16* b_tile,
                                                    int k) {
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            std::uint32_t b[4];
            Operands::load_b_transposed(b, b_tile, k, 8 * n);
            ptx::mma_m16n8k16_bf16(acc[n], a, b[0], b[1]);
            ptx::mma_m16n8k16_bf16(acc[n + 1], a, b[2], b[3]);
        }
    }

    // acc[16][8N] += A[16][D] B[8N][D]^T
    template <int N>
    static __device__ __forceinline__ void add_nt(float (&acc)[N][4],
                                                  const Rows& rows,
                                                  const bf16* b_tile) {
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            add_step(acc, rows.a[k], b_tile, 16 * k);
        }
    }
    template <int N>
    static __device__ __forceinline__ void add_nt(float (&acc)[N][4],
                                                  const bf16* a_tile,
                                                  int row,
                                                  const bf16* b_tile) {
#pragma unroll
        for (int k = 0; k < D; k += 16) {
            std::uint32_t a[4];
            Operands::load_a(a, a_tile, row, k);
            add_step(acc, a, b_tile, k);
        }
    }

    // acc[16][D] += P[16][8N] B[8N][D] with P as accumulators, rounded to bf16 here.
    template <int N>
    static __device__ __forceinline__ void add_pn(float (&acc)[D / 8][4],
                                                  const float (&p)[N][4],
                                                  const bf16* b_tile) {
#pragma unroll
        for (int k = 0; k < N; k += 2) {
            const std::uint32_t a[4] = {pack_bf16(p[k][0], p[k][1]), pack_bf16(p[k][2], p[k][3]),
                                        pack_bf16(p[k + 1][0], p[k + 1][1]),
                                        pack_bf16(p[k + 1][2], p[k + 1][3])};
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                std::uint32_t b[4];
                Operands::load_b(b, b_tile, 8 * k, 8 * n);
                ptx::mma_m16n8k16_bf16(acc[n], a, b[0], b[1]);
                ptx::mma_m16n8k16_bf16(acc[n + 1], a, b[2], b[3]);
            }
        }
    }
};

template <int D>
struct Products<float, D> {
    using Layout = Tile<float, D>;

    struct Rows {  // fp32 operands are read from shared memory each time
        const float* tile;
        int row;
    };
    static __device__ __forceinline__ void load_rows(Rows& rows, const float* tile, int row) {
        rows = {tile, row};
    }

    static __device__ __forceinline__ float4 chunk_at(const float* tile, int row, int chunk) {
        return *reinterpret_cast<const float4*>(tile + Layout::at(row, chunk));
    }
    static __device__ __forceinline__ void add_dot(float& sum, const float4& a, const float4& b) {
        sum = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
    }

    template <int N>
    static __device__ __forceinline__ void add_nt(float (&acc)[N][4],
                                                  const float* a_tile,
                                                  int row,
                                                  const float* b_tile) {
        const int g = lane_index() / 4;
        const int t = lane_index() % 4;
#pragma unroll 1  // unrolled, the loads of all chunks would fill the registers
        for (int chunk = 0; chunk < Layout::kChunks; chunk++) {
            const float4 upper = chunk_at(a_tile, row + g, chunk);
            const float4 lower = chunk_at(a_tile, row + g + 8, chunk);
#pragma unroll
            for (int n = 0; n < N; n++) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float4 b = chunk_at(b_tile, 8 * n + 2 * t + e, chunk);
                    add_dot(acc[n][e], upper, b);
                    add_dot(acc[n][2 + e], lower, b);
                }
            }
        }
    }
    template <int N>
    static __device__ __forceinline__ void add_nt(float (&acc)[N][4],
                                                  const Rows& rows,
                                                  const float* b_tile) {
        add_nt(acc, rows.tile, rows.row, b_tile);
    }

    // An element of P goes from the lane that has it to the four lanes that have its row.
    template <int N>
    static __device__ __forceinline__ void add_pn(float (&acc)[D / 8][4],
                                                  const float (&p)[N][4],
                                                  const float* b_tile) {
        const int t = lane_index() % 4;
#pragma unroll
        for (int tile = 0; tile < N; tile++) {
#pragma unroll
            for (int column = 0; column < 8; column++) {
                const float upper = __shfl_sync(kAllLanes, p[tile][column % 2], column / 2, 4);
                const float lower = __shfl_sync(kAllLanes, p[tile][2 + column % 2], column / 2, 4);
                const int k = 8 * tile + column;
#pragma unroll
                for (int n = 0; n < D / 8; n++) {
                    const float2 b = *reinterpret_cast<const float2*>(
                        b_tile + Layout::at(k, 2 * n + t / 2) + t % 2 * 2);
                    acc[n][0] = fmaf(upper, b.x, acc[n][0]);
                    acc[n][1] = fmaf(upper, b.y, acc[n][1]);
                    acc[n][2] = fmaf(lower, b.x, acc[n][2]);
                    acc[n][3] = fmaf(lower, b.y, acc[n][3]);
                }
                keep_order();
            }
        }
    }
};

}  // namespace dcp::kernels::cuda
