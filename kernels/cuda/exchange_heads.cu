// Packing and unpacking of heads around the exchanges of a Ulysses row (exchange_heads.hpp):
//
//   pack     blocks[p T + t][slot] = turn(rows[t][head that slot `slot` of peer p is])
//   unpack   rows[t][head] = turn back(sum of the slots that are this head)
//
// turn: the rotation of rope.hpp for queries and keys, nothing for values. Sums and rotation are
// fp32, and rounded once.
//
// Shapes: rows [T, (H + 2 G) D], blocks [u T, (h + 2 g) D], each of either type, rows may be
// strided. Threads: one a vector of up to eight pairs of one head, both halves of it; pack: the
// second dimension of the grid counts the peers. Memory: every element once each way; a head that
// several peers use is read (or written) for each of them. The tables come mostly from cache.
#include "core/base/cuda/check.hpp"
#include "kernels/cuda/exchange_heads_kernels.hpp"
#include "kernels/cuda/rotate.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kHeadsThreads = 128;

struct HeadsArgs {
    HeadsProblem problem;
    Rows from;
    Target to;
};

// What a thread works on.
struct PairsPlace {
    std::int64_t token;  // past the last where there is nothing to do
    int head;            // or slot
    int pair;            // the first of its pairs
};
__device__ __forceinline__ PairsPlace place_of(const HeadsProblem& problem, int num_heads) {
    const int vectors = (problem.half + kVector - 1) / kVector;  // of half a head
    const int row_items = num_heads * vectors;
    const std::int64_t item =
        static_cast<std::int64_t>(blockIdx.x) * kHeadsThreads + thread_index();
    const int in_row = static_cast<int>(item % row_items);
    return {item / row_items, in_row / vectors, in_row % vectors * kVector};
}

// Both halves of the pairs of head `head` in a row; `half` columns from each half's beginning.
__device__ __forceinline__ void load_pairs(const Rows& rows,
                                           std::int64_t row,
                                           int head,
                                           int pair,
                                           int half,
                                           float (&a)[kVector],
                                           float (&b)[kVector]) {
    const int lower = head * 2 * half;
    load_vector(rows, row, lower + pair, lower + half, a);
    load_vector(rows, row, lower + half + pair, lower + 2 * half, b);
}
__device__ __forceinline__ void store_pairs(const Target& rows,
                                            std::int64_t row,
                                            int head,
                                            int pair,
                                            int half,
                                            const float (&a)[kVector],
                                            const float (&b)[kVector]) {
    const int lower = head * 2 * half;
    store_vector(rows, row, lower + pair, lower + half, a);
    store_vector(rows, row, lower + half + pair, lower + 2 * half, b);
}

// The head of the rows that slot `slot` of a peer is: query, key and value heads in this order on
// both sides.
__device__ __forceinline__ int head_of_slot(const HeadsProblem& problem, int peer, int slot) {
    if (slot < problem.heads) {
        return peer * problem.heads + slot;
    }
    const int index = (slot - problem.heads) % problem.kv_heads;
    const int is_value = (slot - problem.heads) / problem.kv_heads;
    const int kv_head = (peer * problem.heads + index * problem.shared_by) / problem.group;
    return problem.all_heads + is_value * problem.all_kv_heads + kv_head;
}

__global__ void __launch_bounds__(kHeadsThreads) pack_heads_kernel(const HeadsArgs args) {
    const HeadsProblem& problem = args.problem;
    const PairsPlace at = place_of(problem, problem.heads + 2 * problem.kv_heads);
    if (at.token >= problem.num_tokens) {
        return;
    }
    const int peer = static_cast<int>(blockIdx.y);
    float a[kVector];
    float b[kVector];
    load_pairs(args.from, at.token, head_of_slot(problem, peer, at.head), at.pair, problem.half, a,
               b);
    if (problem.cos_PD.data != nullptr && at.head < problem.heads + problem.kv_heads) {
        const RotationTable table{problem.positions, problem.cos_PD, problem.sin_PD, 1.0F};
        rotate(table, at.token, at.pair, problem.half, a, b);
    }
    store_pairs(args.to, peer * problem.num_tokens + at.token, at.head, at.pair, problem.half, a,
                b);
}

// a, b += the pairs of slot `slot` of the peer
__device__ __forceinline__ void add_slot(const HeadsArgs& args,
                                         const PairsPlace& at,
                                         int peer,
                                         int slot,
                                         float (&a)[kVector],
                                         float (&b)[kVector]) {
    float lower[kVector];
    float upper[kVector];
    load_pairs(args.from, peer * args.problem.num_tokens + at.token, slot, at.pair,
               args.problem.half, lower, upper);
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        a[i] += lower[i];
        b[i] += upper[i];
    }
}

__global__ void __launch_bounds__(kHeadsThreads) unpack_heads_kernel(const HeadsArgs args) {
    const HeadsProblem& problem = args.problem;
    const PairsPlace at = place_of(problem, problem.all_heads + 2 * problem.all_kv_heads);
    if (at.token >= problem.num_tokens) {
        return;
    }
    float a[kVector];
    float b[kVector];
#pragma unroll
    for (int i = 0; i < kVector; i++) {  // adding to minus zero changes no number, not even zeros
        a[i] = -0.0F;
        b[i] = -0.0F;
    }
    if (at.head < problem.all_heads) {
        add_slot(args, at, at.head / problem.heads, at.head % problem.heads, a, b);
    } else {
        const int kv_head = (at.head - problem.all_heads) % problem.all_kv_heads;
        const int is_value = (at.head - problem.all_heads) / problem.all_kv_heads;
        // The query heads of its group; there is a copy of it for every shared_by of them.
        const int begin = kv_head * problem.group;
        for (int query = begin; query < begin + problem.group; query += problem.shared_by) {
            const int index = query % problem.heads / problem.shared_by;
            add_slot(args, at, query / problem.heads,
                     problem.heads + is_value * problem.kv_heads + index, a, b);
        }
    }
    if (problem.cos_PD.data != nullptr && at.head < problem.all_heads + problem.all_kv_heads) {
        const RotationTable table{problem.positions, problem.cos_PD, problem.sin_PD, -1.0F};
        rotate(table, at.token, at.pair, problem.half, a, b);
    }
    store_pairs(args.to, at.token, at.head, at.pair, problem.half, a, b);
}

unsigned blocks_for(const HeadsProblem& problem, int num_heads) {
    const std::int64_t vectors = (problem.half + kVector - 1) / kVector;
    const std::int64_t items = problem.num_tokens * num_heads * vectors;
    return static_cast<unsigned>((items + kHeadsThreads - 1) / kHeadsThreads);
}

}  // namespace

void launch_pack_heads(cudaStream_t stream,
                       const HeadsProblem& problem,
                       const Rows& rows_TN,
                       const Target& blocks) {
    const HeadsArgs args{.problem = problem, .from = rows_TN, .to = blocks};
    const dim3 grid(blocks_for(problem, problem.heads + 2 * problem.kv_heads),
                    static_cast<unsigned>(problem.peers));
    DCP_LAUNCH(pack_heads_kernel, grid, kHeadsThreads, 0, stream, args);
    dcp::cuda::check_launch("pack_heads", stream);
}

void launch_unpack_heads(cudaStream_t stream,
                         const HeadsProblem& problem,
                         const Rows& blocks,
                         const Target& rows_TN) {
    const HeadsArgs args{.problem = problem, .from = blocks, .to = rows_TN};
    const unsigned grid = blocks_for(problem, problem.all_heads + 2 * problem.all_kv_heads);
    DCP_LAUNCH(unpack_heads_kernel, grid, kHeadsThreads, 0, stream, args);
    dcp::cuda::check_launch("unpack_heads", stream);
}

}  // namespace dcp::kernels::cuda
