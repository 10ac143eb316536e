// Token embedding and its gradient (kernels/embedding.hpp).
//
//   x[t] = table[token[t]],   d_table[v] (+)= sum over t with token[t] = v, in order of t, of
//   d_x[t]
//
// Shapes: tokens [T]; table, d_table [V, C] fp32; x, d_x [T, C] of either type.
// Forward: one thread a vector of eight elements. Memory: a row of the table and of x a token.
// Backward, deterministic without atomics or sorting: one block a token (and 1024 columns) looks
// whether the token occurred before; the first occurrence owns the row of the table and adds up
// all later ones in order. Memory: d_x and the touched rows once; tokens T^2 / 2 times 4 bytes from
// cache, which is little beside d_x up to T of some tens of thousands.
#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/row_operations.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

namespace {

constexpr int kEmbeddingThreads = 128;
constexpr int kEmbeddingWarps = kEmbeddingThreads / kWarpThreads;
constexpr int kColumnsABlock = kEmbeddingThreads * kVector;

struct EmbeddingArgs {
    const std::int32_t* tokens = nullptr;
    Rows from;  // table, or d_x
    Target to;  // x, or d_table
    std::int64_t num_tokens = 0;
    int columns = 0;
};

__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_forward_kernel(const EmbeddingArgs args) {
    const std::int64_t vectors = (args.columns + kVector - 1) / kVector;
    const std::int64_t item =
        static_cast<std::int64_t>(blockIdx.x) * kEmbeddingThreads + thread_index();
    const std::int64_t token = item / vectors;
    if (token >= args.num_tokens) {
        return;
    }
    const int column = static_cast<int>(item % vectors) * kVector;
    float v[kVector];
    load_vector(args.from, args.tokens[token], column, args.columns, v);
    store_vector(args.to, token, column, args.columns, v);
}

// Which of the tokens [begin, begin + 128) are `wanted`, as one bit each; the same for all threads.
__device__ __forceinline__ void find_tokens(const EmbeddingArgs& args,
                                            std::int64_t begin,
                                            std::int64_t end,
                                            std::int32_t wanted,
                                            unsigned* shared,
                                            unsigned (&found)[kEmbeddingWarps]) {
    const std::int64_t at = begin + thread_index();
    const bool is_wanted = at < end && args.tokens[at] == wanted;
    const unsigned of_warp = __ballot_sync(kAllLanes, is_wanted ? 1 : 0);
    if (lane_index() == 0) {
        shared[warp_index()] = of_warp;
    }
    __syncthreads();  // the bits of all warps are there
#pragma unroll
    for (int warp = 0; warp < kEmbeddingWarps; warp++) {
        found[warp] = shared[warp];
    }
    __syncthreads();  // everybody has read them
}

__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_backward_kernel(const EmbeddingArgs args) {
    DCP_SHARED(unsigned, shared);
    const std::int64_t mine = blockIdx.x;
    const std::int32_t token = args.tokens[mine];
    const int column = static_cast<int>(blockIdx.y) * kColumnsABlock + thread_index() * kVector;
    unsigned found[kEmbeddingWarps];
    for (std::int64_t begin = 0; begin < mine; begin += kEmbeddingThreads) {
        find_tokens(args, begin, mine, token, shared, found);
        unsigned any = 0;
#pragma unroll
        for (int warp = 0; warp < kEmbeddingWarps; warp++) {
            any |= found[warp];
        }
        if (any != 0) {
            return;  // an earlier block owns the row
        }
    }
    float sum[kVector] = {};
    for (std::int64_t begin = mine; begin < args.num_tokens; begin += kEmbeddingThreads) {
        find_tokens(args, begin, args.num_tokens, token, shared, found);
#pragma unroll
        for (int warp = 0; warp < kEmbeddingWarps; warp++) {
            for (unsigned bits = found[warp]; bits != 0; bits &= bits - 1) {
                const std::int64_t row =
                    begin + warp * kWarpThreads + __ffs(static_cast<int>(bits)) - 1;
                float d_x[kVector];
                load_vector(args.from, row, column, args.columns, d_x);
#pragma unroll
                for (int i = 0; i < kVector; i++) {
                    sum[i] += d_x[i];
                }
            }
        }
    }
    const Rows before{args.to.data, args.to.stride, false};
    float total[kVector];
    load_vector(before, token, column, args.columns, total);
#pragma unroll
    for (int i = 0; i < kVector; i++) {
        total[i] += sum[i];
    }
    store_vector(args.to, token, column, args.columns, total);
}

}  // namespace

void embedding_forward(Queue& queue, const EmbeddingForward& args) {
    const std::int64_t T = args.x_TC.dim(0);
    const std::int64_t C = args.x_TC.dim(1);
    if (T == 0 || C == 0) {
        return;
    }
    const EmbeddingArgs embedding{.tokens = args.tokens_T.as<std::int32_t>(),
                                  .from = rows_of(args.table_VC),
                                  .to = target_of(args.x_TC),
                                  .num_tokens = T,
                                  .columns = static_cast<int>(C)};
    const std::int64_t vectors = T * ((C + kVector - 1) / kVector);
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(embedding_forward_kernel,
               static_cast<unsigned>((vectors + kEmbeddingThreads - 1) / kEmbeddingThreads),
               kEmbeddingThreads, 0, stream, embedding);
    dcp::cuda::check_launch("embedding_forward", stream);
}

void embedding_backward(Queue& queue, const EmbeddingBackward& args) {
    const std::int64_t T = args.d_x_TC.dim(0);
    const std::int64_t C = args.d_x_TC.dim(1);
    if (args.mode == GradMode::kOverwrite) {
        fill_zero(queue, args.d_table_VC);
    }
    if (T == 0 || C == 0) {
        return;
    }
    const EmbeddingArgs embedding{.tokens = args.tokens_T.as<std::int32_t>(),
                                  .from = rows_of(args.d_x_TC),
                                  .to = target_of(args.d_table_VC),
                                  .num_tokens = T,
                                  .columns = static_cast<int>(C)};
    const dim3 grid(static_cast<unsigned>(T),
                    static_cast<unsigned>((C + kColumnsABlock - 1) / kColumnsABlock));
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(embedding_backward_kernel, grid, kEmbeddingThreads,
               kEmbeddingWarps * sizeof(unsigned), stream, embedding);
    dcp::cuda::check_launch("embedding_backward", stream);
}

}  // namespace dcp::kernels::cuda
