// Gradient of the queries, with P recomputed from the forward pass's log-sum-exp.
//
//   P_ij = exp(scale q_i.k_j - lse_i),  dP_ij = dO_i.V_j,  dS_ij = P_ij (dP_ij - delta_i)
//   dQ_i = scale sum_j dS_ij K_j
//
// Shapes: q, d_o, d_q [Tq, H, D]; k, v [Tk, G, D]; lse, delta [H, Tq].
// Threads: as in the forward kernel, one block = 64 query rows of one span and query head, 16 rows
// a warp, a loop over steps of K and V (cp.async, two buffers, one __syncthreads a step). S and dP
// are accumulators of 16 x step, dQ of 16 x D; K serves S as the transposed and dQ as the plain
// operand. lse and delta are those of the whole row, so results of several key blocks (ring) just
// add up. Rounding (bf16): dS to bf16, dQ once. A row with lse = -infinity sees no key: all hidden,
// dQ = 0. Memory: q, d_o, d_q once, k and v once for every query tile and query head that sees
// them. 6 D operations a visible pair. Deterministic: one warp sums a row in key order.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/attention_shape.cuh"

namespace dcp::kernels::cuda {

namespace {

// Two accumulators of 16 x step beside that of dQ: at D = 128 the registers are enough for half.
template <class T, int D>
constexpr int kDqStep = D <= 96 ? kKeyStep<T> : 32;

template <class T, int D>
constexpr int dq_shared_bytes() {
    return (2 * kAttentionTileRows + 4 * kDqStep<T, D>)*Tile<T, D>::kRowElems *
           static_cast<int>(sizeof(T));
}

template <class T, int D>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_dq_kernel(const AttentionProblem problem,
                        const Rows d_o,
                        const float* __restrict__ lse_HT,
                        const float* __restrict__ delta_HT,
                        const Target d_q) {
    using Layout = Tile<T, D>;
    using Multiply = Products<T, D>;
    constexpr int kStep = kDqStep<T, D>;
    const AttentionTile tile = problem.tiles[blockIdx.x];
    const int head = static_cast<int>(blockIdx.y);
    const int num_rows = min(kAttentionTileRows, tile.q_count - tile.first);
    const int num_keys = max(0, min(tile.k_count, tile.first + num_rows + tile.q_offset));
    const int num_steps = (num_keys + kStep - 1) / kStep;

    DCP_SHARED(T, shared);
    T* const q_tile = shared;
    T* const d_o_tile = q_tile + kAttentionTileRows * Layout::kRowElems;
    T* const k_tiles = d_o_tile + kAttentionTileRows * Layout::kRowElems;
    T* const v_tiles = k_tiles + 2 * kStep * Layout::kRowElems;
    const int kv_column = head / problem.heads_per_group * problem.head_dim;
    const T* const k =
        static_cast<const T*>(problem.k.data) + tile.k_begin * problem.k.stride + kv_column;
    const T* const v =
        static_cast<const T*>(problem.v.data) + tile.k_begin * problem.v.stride + kv_column;
    const auto load_step = [&](int step) {
        const int first = step * kStep;
        const int buffer = step % 2 * kStep * Layout::kRowElems;
        Layout::template load_async<kStep, kAttentionThreads>(
            k_tiles + buffer, k + first * problem.k.stride, problem.k.stride, tile.k_count - first,
            problem.head_dim);
        Layout::template load_async<kStep, kAttentionThreads>(
            v_tiles + buffer, v + first * problem.v.stride, problem.v.stride, tile.k_count - first,
            problem.head_dim);
    };
    const std::int64_t first_row = tile.q_begin + tile.first;
    const int column = head * problem.head_dim;
    Layout::template load_async<kAttentionTileRows, kAttentionThreads>(
        q_tile, static_cast<const T*>(problem.q.data) + first_row * problem.q.stride + column,
        problem.q.stride, num_rows, problem.head_dim);
    Layout::template load_async<kAttentionTileRows, kAttentionThreads>(
        d_o_tile, static_cast<const T*>(d_o.data) + first_row * d_o.stride + column, d_o.stride,
        num_rows, problem.head_dim);
    if (num_steps > 0) {
        load_step(0);
    }
    ptx::cp_async_commit();

    const int warp_row = warp_index() * 16;
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    const float scale2 = problem.scale * kLog2E;
    float lse2[2];  // of rows g and g + 8
    float delta[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = warp_row + g + 8 * r;
        const std::int64_t at = head * problem.num_queries + first_row + row;
        lse2[r] = row < num_rows ? lse_HT[at] * kLog2E : 0.0F;
        delta[r] = row < num_rows ? delta_HT[at] : 0.0F;
    }
    float d_q_acc[D / 8][4];
    set_zero(d_q_acc);
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
        float d_s[kStep / 8][4];
        set_zero(p);
        set_zero(d_s);
        Multiply::add_nt(p, q_tile, warp_row, k_tiles + buffer);
        Multiply::add_nt(d_s, d_o_tile, warp_row, v_tiles + buffer);
        const bool has_hidden_keys =
            first + kStep > tile.k_count || first + kStep - 1 > tile.first + tile.q_offset;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = tile.first + warp_row + g + 8 * r;
            const int end = has_hidden_keys
                                ? min(tile.k_count, query + tile.q_offset + 1) - first - 2 * t
                                : kStep;
#pragma unroll
            for (int n = 0; n < kStep / 8; n++) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int i = 2 * r + e;
                    const float probability =
                        8 * n + e < end ? ptx::ex2(p[n][i] * scale2 - lse2[r]) : 0.0F;
                    d_s[n][i] = probability * (d_s[n][i] - delta[r]);
                }
            }
        }
        Multiply::add_pn(d_q_acc, d_s, k_tiles + buffer);
    }
    ptx::cp_async_wait<0>();
    if (num_steps == 0) {
        __syncthreads();  // q_tile becomes staging: no other thread's copies may arrive later
    }
    store_rows<D>(d_q, first_row + warp_row, column, num_rows - warp_row, problem.head_dim, d_q_acc,
                  problem.scale, problem.scale, q_tile + warp_row * Layout::kRowElems);
}

}  // namespace

void launch_attention_dq(cudaStream_t stream,
                         DType dtype,
                         const AttentionProblem& problem,
                         const Rows& d_o,
                         const float* lse_HT,
                         const float* delta_HT,
                         const Target& d_q) {
    if (problem.num_tiles == 0) {
        return;
    }
    for_attention_instance(dtype, problem.head_dim, [&]<class T, int D>() {
        constexpr int kSharedBytes = dq_shared_bytes<T, D>();
        dcp::cuda::allow_shared_bytes("attention_dq", attention_dq_kernel<T, D>, kSharedBytes);
        DCP_LAUNCH((attention_dq_kernel<T, D>), attention_grid(problem, problem.num_heads),
                   kAttentionThreads, kSharedBytes, stream, problem, d_o, lse_HT, delta_HT, d_q);
        dcp::cuda::check_launch("attention_dq", stream);
    });
}

}  // namespace dcp::kernels::cuda
