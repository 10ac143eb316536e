// Forward attention with an online softmax over steps of keys (kernels/attention.hpp).
//
//   O_i = sum_j P_ij V_j,  P_ij = exp(scale q_i.k_j - lse_i),  lse_i = log sum_j exp(scale q_i.k_j)
//
// Shapes: q, o [Tq, H, D]; k, v [Tk, G, D]; lse [H, Tq]. D up to 128 in instances of 64, 80, 96,
// 128. Threads: one block = 64 query rows of one span and one query head, grid (tiles, heads). Each
// of its four warps keeps 16 rows to the end: S = Q K^T (16 x step) and O (16 x D) are
// accumulators, a row's maximum and sum are reduced over the four lanes that hold it, and P goes
// from accumulators to operands in registers. K and V are double-buffered by cp.async with one
// __syncthreads a step: what is loaded after it goes where the step before has been read. Rounding
// (bf16): P, which is at most 1, to bf16; O once at the end; everything else is fp32. Memory: q and
// o once, lse once; k and v once for every query tile and query head that sees them: 2 D k_count
// (q_count / 64) H elements a span, half of it if causal. 4 D operations a visible pair.
// Deterministic: every row is summed by one warp in key order.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/attention_shape.cuh"

namespace dcp::kernels::cuda {

namespace {

// Beyond that, 32 registers of operands are too many beside the accumulators of O.
template <int D>
constexpr bool kKeepsQueries = D <= 96;

template <class T, int D>
constexpr int forward_shared_bytes() {
    return (kAttentionTileRows + 4 * kKeyStep<T>)*Tile<T, D>::kRowElems *
           static_cast<int>(sizeof(T));
}

// Takes one step of scores into the running maximum, sum and output of rows g (r = 0) and g + 8
// (r = 1) of the warp, and leaves exp(score - maximum) in p. `scale2`: scale times log2(e).
template <int N, int ColumnTiles>
__device__ __forceinline__ void online_softmax(float (&p)[N][4],
                                               float (&o)[ColumnTiles][4],
                                               float (&row_max)[2],
                                               float (&row_sum)[2],
                                               float scale2) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = row_max[r];
#pragma unroll
        for (int n = 0; n < N; n++) {
            top = fmaxf(top, fmaxf(p[n][2 * r], p[n][2 * r + 1]));
        }
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
        // A row that has seen no key yet has no maximum to subtract.
        const float base = top == kMinusInfinity ? 0.0F : top * scale2;
        const float decay = ptx::ex2(row_max[r] * scale2 - base);
        row_max[r] = top;
        row_sum[r] *= decay;
#pragma unroll
        for (int n = 0; n < ColumnTiles; n++) {
            o[n][2 * r] *= decay;
            o[n][2 * r + 1] *= decay;
        }
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; e++) {
                p[n][e] = ptx::ex2(p[n][e] * scale2 - base);
                row_sum[r] += p[n][e];
            }
        }
    }
}

template <class T, int D>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_forward_kernel(const AttentionProblem problem, const Target o, float* lse_HT) {
    using Layout = Tile<T, D>;
    using Multiply = Products<T, D>;
    constexpr int kStep = kKeyStep<T>;
    const AttentionTile tile = problem.tiles[blockIdx.x];
    const int head = static_cast<int>(blockIdx.y);
    const int num_rows = min(kAttentionTileRows, tile.q_count - tile.first);
    const int num_keys = max(0, min(tile.k_count, tile.first + num_rows + tile.q_offset));
    const int num_steps = (num_keys + kStep - 1) / kStep;

    DCP_SHARED(T, shared);
    T* const q_tile = shared;
    T* const k_tiles = q_tile + kAttentionTileRows * Layout::kRowElems;
    T* const v_tiles = k_tiles + 2 * kStep * Layout::kRowElems;
    const int kv_column = head / problem.heads_per_group * problem.head_dim;
    const auto load_step = [&](int step) {
        const int first = step * kStep;
        const int buffer = step % 2 * kStep * Layout::kRowElems;
        const std::int64_t row = hide(tile.k_begin + first);
        Layout::template load_async<kStep, kAttentionThreads>(
            k_tiles + buffer,
            static_cast<const T*>(problem.k.data) + row * problem.k.stride + kv_column,
            problem.k.stride, tile.k_count - first, problem.head_dim);
        Layout::template load_async<kStep, kAttentionThreads>(
            v_tiles + buffer,
            static_cast<const T*>(problem.v.data) + row * problem.v.stride + kv_column,
            problem.v.stride, tile.k_count - first, problem.head_dim);
    };
    const std::int64_t first_row = tile.q_begin + tile.first;
    Layout::template load_async<kAttentionTileRows, kAttentionThreads>(
        q_tile,
        static_cast<const T*>(problem.q.data) + first_row * problem.q.stride +
            head * problem.head_dim,
        problem.q.stride, num_rows, problem.head_dim);
    ptx::cp_async_commit();
    if (num_steps > 0) {
        load_step(0);
    }
    ptx::cp_async_commit();

    const int warp_row = warp_index() * 16;
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    [[maybe_unused]] typename Multiply::Rows q_rows;
    ptx::cp_async_wait<1>();
    __syncthreads();  // the queries are there
    if constexpr (kKeepsQueries<D>) {
        Multiply::load_rows(q_rows, q_tile, warp_row);
    }

    float o_acc[D / 8][4];
    set_zero(o_acc);
    const float scale2 = problem.scale * kLog2E;
    float row_max[2] = {kMinusInfinity, kMinusInfinity};
    float row_sum[2] = {0.0F, 0.0F};
    for (int step = 0; step < num_steps; step++) {
        ptx::cp_async_wait<0>();
        __syncthreads();  // this step has arrived, and every warp has read the one before
        if (step + 1 < num_steps) {
            load_step(step + 1);
        }
        ptx::cp_async_commit();

        const int first = step * kStep;
        const int buffer = step % 2 * kStep * Layout::kRowElems;
        float p[kStep / 8][4];
        set_zero(p);
        if constexpr (kKeepsQueries<D>) {
            Multiply::add_nt(p, q_rows, k_tiles + buffer);
        } else {
            Multiply::add_nt(p, q_tile, warp_row, k_tiles + buffer);
        }
        const bool has_hidden_keys =
            first + kStep > tile.k_count || first + kStep - 1 > tile.first + tile.q_offset;
        if (has_hidden_keys) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int query = tile.first + warp_row + g + 8 * r;
                const int end = min(tile.k_count, query + tile.q_offset + 1) - first - 2 * t;
#pragma unroll
                for (int n = 0; n < kStep / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        if (8 * n + e >= end) {
                            p[n][2 * r + e] = kMinusInfinity;
                        }
                    }
                }
            }
        }
        online_softmax(p, o_acc, row_max, row_sum, scale2);
        Multiply::add_pn(o_acc, p, v_tiles + buffer);
    }

    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = row_sum[r];
        sum += __shfl_xor_sync(kAllLanes, sum, 1);
        sum += __shfl_xor_sync(kAllLanes, sum, 2);
        inverse[r] = sum > 0.0F ? 1.0F / sum : 0.0F;
        const int row = warp_row + g + 8 * r;
        if (t == 0 && row < num_rows) {
            lse_HT[head * problem.num_queries + first_row + row] =
                sum > 0.0F ? row_max[r] * problem.scale + logf(sum) : kMinusInfinity;
        }
    }
    store_rows<D>(o, first_row + warp_row, head * problem.head_dim, num_rows - warp_row,
                  problem.head_dim, o_acc, inverse[0], inverse[1],
                  q_tile + warp_row * Layout::kRowElems);
}

}  // namespace

void launch_attention_forward(cudaStream_t stream,
                              DType dtype,
                              const AttentionProblem& problem,
                              const Target& o,
                              float* lse_HT) {
    if (problem.num_tiles == 0) {
        return;
    }
    for_attention_instance(dtype, problem.head_dim, [&]<class T, int D>() {
        constexpr int kSharedBytes = forward_shared_bytes<T, D>();
        dcp::cuda::allow_shared_bytes("attention_forward", attention_forward_kernel<T, D>,
                                      kSharedBytes);
        DCP_LAUNCH((attention_forward_kernel<T, D>), attention_grid(problem, problem.num_heads),
                   kAttentionThreads, kSharedBytes, stream, problem, o, lse_HT);
        dcp::cuda::check_launch("attention_forward", stream);
    });
}

}  // namespace dcp::kernels::cuda
