// Host side of attention: work lists, workspaces, and the kernels in their order.
#include "kernels/cuda/attention.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/cuda/stream.hpp"
#include "core/base/errors.hpp"
#include "kernels/cuda/attention_kernels.hpp"

namespace dcp::kernels::cuda {

namespace {

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kHeadDimMultiple = 8;
constexpr std::int64_t kLargestHeadDim = 128;

// Workspaces are cut into parts that start at multiples of this.
constexpr std::int64_t kPartBytes = 256;

std::int64_t rounded(std::int64_t bytes) {
    return (bytes + kPartBytes - 1) / kPartBytes * kPartBytes;
}

std::int64_t tiles_bytes(std::int64_t num_rows) {
    return rounded(max_attention_tiles(num_rows) *
                   static_cast<std::int64_t>(sizeof(AttentionTile)));
}

void check_rows(const std::string& what, const ConstTensor& tensor) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(tensor.dtype()));
    if (reinterpret_cast<std::uintptr_t>(tensor.data()) % kAccessBytes != 0 ||
        (tensor.dim(0) > 1 && tensor.row_stride() * element_bytes % kAccessBytes != 0)) {
        throw UnsupportedError(fmt::format(
            "{}: rows that are {} elements of {} apart do not all start at a multiple of {} "
            "bytes, which the CUDA backend needs",
            what, tensor.row_stride(), name(tensor.dtype()), kAccessBytes));
    }
}

void check_head_dim(std::int64_t head_dim) {
    if (head_dim % kHeadDimMultiple != 0 || head_dim > kLargestHeadDim) {
        throw UnsupportedError(
            fmt::format("attention: head dimension {}; the CUDA backend takes multiples of {} up "
                        "to {} (model.head_dim)",
                        head_dim, kHeadDimMultiple, kLargestHeadDim));
    }
}

// The parts of a workspace, in order.
class Parts {
public:
    explicit Parts(const Tensor& workspace) : next_(static_cast<std::byte*>(workspace.data())) {
        const auto address = reinterpret_cast<std::uintptr_t>(next_);
        next_ += (kPartBytes - address % kPartBytes) % kPartBytes;
    }
    void* take(std::int64_t bytes) {
        void* part = next_;
        next_ += rounded(bytes);
        return part;
    }

private:
    std::byte* next_;
};

// Copies the work list; the host's own copy may be dropped when this returns.
void use_tiles(Queue& queue,
               AttentionProblem& problem,
               const std::vector<AttentionTile>& tiles,
               void* part) {
    problem.tiles = static_cast<const AttentionTile*>(part);
    problem.num_tiles = static_cast<std::int64_t>(tiles.size());
    if (!tiles.empty()) {
        queue.stream()->copy_to_device(part, tiles.data(), tiles.size() * sizeof(AttentionTile));
    }
}

template <class Args>
AttentionProblem problem_of(const std::string& what, const Args& args) {
    check_head_dim(args.q_THD.dim(2));
    check_rows(what + ": q_THD", args.q_THD);
    check_rows(what + ": k_TGD", args.k_TGD);
    check_rows(what + ": v_TGD", args.v_TGD);
    check_rows(what + ": o_THD", args.o_THD);
    return {.q = rows_of(args.q_THD),
            .k = rows_of(args.k_TGD),
            .v = rows_of(args.v_TGD),
            .num_queries = args.q_THD.dim(0),
            .num_heads = static_cast<int>(args.q_THD.dim(1)),
            .heads_per_group = static_cast<int>(args.q_THD.dim(1) / args.k_TGD.dim(1)),
            .head_dim = static_cast<int>(args.q_THD.dim(2)),
            .scale = args.scale};
}

std::int64_t delta_bytes(std::int64_t num_heads, std::int64_t num_queries) {
    return rounded(num_heads * num_queries * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace

std::size_t attention_forward_workspace_bytes(const AttentionSizes& sizes) {
    return static_cast<std::size_t>(kPartBytes + tiles_bytes(sizes.num_queries));
}

std::size_t attention_backward_workspace_bytes(const AttentionSizes& sizes) {
    return static_cast<std::size_t>(kPartBytes + tiles_bytes(sizes.num_queries) +
                                    tiles_bytes(sizes.num_keys) +
                                    delta_bytes(sizes.num_heads, sizes.num_queries));
}

void attention_forward(Queue& queue, const AttentionForward& args) {
    AttentionProblem problem = problem_of("attention_forward", args);
    Parts parts(args.workspace);
    use_tiles(queue, problem, attention_tiles(args.spans, args.causal, TileOf::kQueries),
              parts.take(tiles_bytes(args.q_THD.dim(0))));
    launch_attention_forward(dcp::cuda::stream_of(queue), args.q_THD.dtype(), problem,
                             target_of(args.o_THD), args.lse_HT.as<float>());
}

void attention_backward(Queue& queue, const AttentionBackward& args) {
    const std::string what = "attention_backward";
    AttentionProblem of_queries = problem_of(what, args);
    check_rows(what + ": d_o_THD", args.d_o_THD);
    check_rows(what + ": d_q_THD", args.d_q_THD);
    check_rows(what + ": d_k_TGD", args.d_k_TGD);
    check_rows(what + ": d_v_TGD", args.d_v_TGD);
    AttentionProblem of_keys = of_queries;
    Parts parts(args.workspace);
    use_tiles(queue, of_queries, attention_tiles(args.spans, args.causal, TileOf::kQueries),
              parts.take(tiles_bytes(args.q_THD.dim(0))));
    use_tiles(queue, of_keys, attention_tiles(args.spans, args.causal, TileOf::kKeys),
              parts.take(tiles_bytes(args.k_TGD.dim(0))));
    auto* const delta =
        static_cast<float*>(parts.take(delta_bytes(of_queries.num_heads, of_queries.num_queries)));

    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const DType dtype = args.q_THD.dtype();
    const Rows d_o = rows_of(args.d_o_THD);
    const auto* const lse = args.lse_HT.as<float>();
    launch_attention_delta(stream, dtype, of_queries, rows_of(args.o_THD), d_o, delta);
    launch_attention_dq(stream, dtype, of_queries, d_o, lse, delta,
                        target_of(args.d_q_THD, args.mode));
    launch_attention_dkdv(stream, dtype, of_keys, d_o, lse, delta,
                          target_of(args.d_k_TGD, args.mode), target_of(args.d_v_TGD, args.mode));
}

}  // namespace dcp::kernels::cuda
