// Gradients of the keys and values, everything transposed so that keys are the rows of the
// products.
//
//   P^T_ji = exp(scale k_j.q_i - lse_i),   dS^T_ji = P^T_ji (V_j.dO_i - delta_i)
//   dV_j = sum_i P^T_ji dO_i,   dK_j = scale sum_i dS^T_ji Q_i   over the queries i that see j, of
//   all heads of the group
//
// Shapes: q, d_o [Tq, H, D]; k, v, d_k, d_v [Tk, G, D]; lse, delta [H, Tq].
// Threads: one block = 64 key rows of one span and one key/value head, 16 keys a warp. The loop
// runs over (query head of the group) x (step of query rows); Q, dO, lse and delta are
// double-buffered by cp.async with one __syncthreads a step. dK and dV (16 x D each) stay in
// accumulators to the end, each is summed by one warp in a fixed order: no atomics, the same bits
// every time. Rounding (bf16): P and dS to bf16, dK and dV once. Query rows past the end arrive as
// zeros and add nothing; a query that sees no key is hidden from all of them. Memory: k, v, d_k,
// d_v once; q and d_o once for every key tile and query head. 8 D operations a visible pair.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/attention_shape.cuh"

namespace dcp::kernels::cuda {

namespace {

// Query rows a step. The two accumulators of 16 x D leave few registers for those of 16 x step.
template <class T, int D>
constexpr int kQueryStep = sizeof(T) == 4 ? 32
                           : D <= 64      ? 64
                           : D <= 96      ? 32
                                          : 16;

template <class T, int D>
constexpr int dkdv_shared_bytes() {
    return (2 * kAttentionTileRows + 4 * kQueryStep<T, D>)*Tile<T, D>::kRowElems *
               static_cast<int>(sizeof(T)) +
           4 * kQueryStep<T, D> * static_cast<int>(sizeof(float));
}

template <class T, int D>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_dkdv_kernel(const AttentionProblem problem,
                          const Rows d_o,
                          const float* __restrict__ lse_HT,
                          const float* __restrict__ delta_HT,
                          const Target d_k,
                          const Target d_v) {
    using Layout = Tile<T, D>;
    using Multiply = Products<T, D>;
    constexpr int kStep = kQueryStep<T, D>;
    static_assert(2 * kStep <= kAttentionThreads);  // one thread loads one lse or one delta
    const AttentionTile tile = problem.tiles[blockIdx.x];
    const int kv_head = static_cast<int>(blockIdx.y);
    const int num_rows = min(kAttentionTileRows, tile.k_count - tile.first);
    const int first_step = max(0, min(tile.q_count, tile.first - tile.q_offset)) / kStep;
    const int steps_a_head = (tile.q_count + kStep - 1) / kStep - first_step;
    const int num_steps = problem.heads_per_group * max(0, steps_a_head);

    DCP_SHARED(T, shared);
    T* const k_tile = shared;
    T* const v_tile = k_tile + kAttentionTileRows * Layout::kRowElems;
    T* const q_tiles = v_tile + kAttentionTileRows * Layout::kRowElems;
    T* const d_o_tiles = q_tiles + 2 * kStep * Layout::kRowElems;
    float* const lse_rows = reinterpret_cast<float*>(d_o_tiles + 2 * kStep * Layout::kRowElems);
    float* const delta_rows = lse_rows + 2 * kStep;
    const auto load_step = [&](int step) {
        const int head = kv_head * problem.heads_per_group + step / steps_a_head;
        const int first = (first_step + step % steps_a_head) * kStep;
        const int buffer = step % 2;
        const int left = tile.q_count - first;
        const std::int64_t row = hide(tile.q_begin + first);
        const int column = head * problem.head_dim;
        Layout::template load_async<kStep, kAttentionThreads>(
            q_tiles + buffer * kStep * Layout::kRowElems,
            static_cast<const T*>(problem.q.data) + row * problem.q.stride + column,
            problem.q.stride, left, problem.head_dim);
        Layout::template load_async<kStep, kAttentionThreads>(
            d_o_tiles + buffer * kStep * Layout::kRowElems,
            static_cast<const T*>(d_o.data) + row * d_o.stride + column, d_o.stride, left,
            problem.head_dim);
        const int i = thread_index() % kStep;
        const std::int64_t at = head * problem.num_queries + row + (i < left ? i : 0);
        if (thread_index() < kStep) {
            ptx::cp_async<4>(lse_rows + buffer * kStep + i, lse_HT + at, i < left ? 4 : 0);
        } else if (thread_index() < 2 * kStep) {
            ptx::cp_async<4>(delta_rows + buffer * kStep + i, delta_HT + at, i < left ? 4 : 0);
        }
    };
    const std::int64_t first_row = tile.k_begin + tile.first;
    const int kv_column = kv_head * problem.head_dim;
    Layout::template load_async<kAttentionTileRows, kAttentionThreads>(
        k_tile, static_cast<const T*>(problem.k.data) + first_row * problem.k.stride + kv_column,
        problem.k.stride, num_rows, problem.head_dim);
    Layout::template load_async<kAttentionTileRows, kAttentionThreads>(
        v_tile, static_cast<const T*>(problem.v.data) + first_row * problem.v.stride + kv_column,
        problem.v.stride, num_rows, problem.head_dim);
    if (num_steps > 0) {
        load_step(0);
    }
    ptx::cp_async_commit();

    const int warp_row = warp_index() * 16;
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    const float scale2 = problem.scale * kLog2E;
    float d_k_acc[D / 8][4];
    float d_v_acc[D / 8][4];
    set_zero(d_k_acc);
    set_zero(d_v_acc);
    for (int step = 0; step < num_steps; step++) {
        ptx::cp_async_wait<0>();
        __syncthreads();  // this step has arrived, and every warp has read the one before
        if (step + 1 < num_steps) {
            load_step(step + 1);
        }
        ptx::cp_async_commit();

        const int first = (first_step + step % steps_a_head) * kStep;
        const int buffer = step % 2;
        const T* const q_step = q_tiles + buffer * kStep * Layout::kRowElems;
        const T* const d_o_step = d_o_tiles + buffer * kStep * Layout::kRowElems;
        float p[kStep / 8][4];
        set_zero(p);
        Multiply::add_nt(p, k_tile, warp_row, q_step);
        const bool has_blind_queries = first + tile.q_offset < tile.first + kAttentionTileRows - 1;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int key = tile.first + warp_row + g + 8 * r;
            // From this query of the step on, counted from the lane's own first one.
            const int seen_from = has_blind_queries ? key - tile.q_offset - first - 2 * t : -kStep;
#pragma unroll
            for (int m = 0; m < kStep / 8; m++) {
                const float2 lse =
                    *reinterpret_cast<const float2*>(lse_rows + buffer * kStep + 8 * m + 2 * t);
                p[m][2 * r] =
                    8 * m >= seen_from ? ptx::ex2(p[m][2 * r] * scale2 - lse.x * kLog2E) : 0.0F;
                p[m][2 * r + 1] = 8 * m + 1 >= seen_from
                                      ? ptx::ex2(p[m][2 * r + 1] * scale2 - lse.y * kLog2E)
                                      : 0.0F;
            }
        }
        Multiply::add_pn(d_v_acc, p, d_o_step);

        float d_s[kStep / 8][4];
        set_zero(d_s);
        Multiply::add_nt(d_s, v_tile, warp_row, d_o_step);
#pragma unroll
        for (int m = 0; m < kStep / 8; m++) {
            const float2 delta =
                *reinterpret_cast<const float2*>(delta_rows + buffer * kStep + 8 * m + 2 * t);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                d_s[m][e] = p[m][e] * (d_s[m][e] - (e % 2 == 0 ? delta.x : delta.y));
            }
        }
        Multiply::add_pn(d_k_acc, d_s, q_step);
    }
    ptx::cp_async_wait<0>();
    if (num_steps == 0) {
        __syncthreads();  // k_tile and v_tile become staging: no other thread's copies may arrive
                          // later
    }
    store_rows<D>(d_k, first_row + warp_row, kv_column, num_rows - warp_row, problem.head_dim,
                  d_k_acc, problem.scale, problem.scale, k_tile + warp_row * Layout::kRowElems);
    store_rows<D>(d_v, first_row + warp_row, kv_column, num_rows - warp_row, problem.head_dim,
                  d_v_acc, 1.0F, 1.0F, v_tile + warp_row * Layout::kRowElems);
}

}  // namespace

void launch_attention_dkdv(cudaStream_t stream,
                           DType dtype,
                           const AttentionProblem& problem,
                           const Rows& d_o,
                           const float* lse_HT,
                           const float* delta_HT,
                           const Target& d_k,
                           const Target& d_v) {
    if (problem.num_tiles == 0) {
        return;
    }
    for_attention_instance(dtype, problem.head_dim, [&]<class T, int D>() {
        constexpr int kSharedBytes = dkdv_shared_bytes<T, D>();
        dcp::cuda::allow_shared_bytes("attention_dkdv", attention_dkdv_kernel<T, D>, kSharedBytes);
        DCP_LAUNCH((attention_dkdv_kernel<T, D>),
                   attention_grid(problem, problem.num_heads / problem.heads_per_group),
                   kAttentionThreads, kSharedBytes, stream, problem, d_o, lse_HT, delta_HT, d_k,
                   d_v);
        dcp::cuda::check_launch("attention_dkdv", stream);
    });
}

}  // namespace dcp::kernels::cuda
