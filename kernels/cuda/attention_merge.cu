// Folds attention over further keys into a running result (kernels/attention_merge.hpp):
//
//   lse' = log(exp(lse) + exp(lse_sum)),  O' = exp(lse - lse') O + exp(lse_sum - lse') O_sum
//
// Shapes: o, o_sum [Tq, H, D], lse, lse_sum [H, Tq]; any D. A side with lse = -infinity has weight
// 0. Threads: one warp a query and head, lanes side by side in D. The ranges of rows travel as an
// argument of the launch, kRangesALaunch at a time, since the contract has no workspace.
// Memory a query and head: 8 D + 8 bytes in the sum read and written, o and its lse read once.
#include <algorithm>
#include <vector>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/target.hpp"

namespace dcp::kernels::cuda {

namespace {

constexpr int kMergeWarps = 4;
constexpr int kRangesALaunch = 64;

struct RowRange {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

struct MergeArgs {
    RowRange ranges[kRangesALaunch];
    int num_ranges = 0;
    std::int64_t num_rows = 0;  // of all ranges
    Rows o;
    const float* lse_HT = nullptr;
    float* o_sum = nullptr;
    std::int64_t o_sum_stride = 0;
    float* lse_sum_HT = nullptr;
    std::int64_t num_queries = 0;
    int num_heads = 0;
    int head_dim = 0;
};

__device__ __forceinline__ float as_float(float value) {
    return value;
}
__device__ __forceinline__ float as_float(bf16 value) {
    return __bfloat162float(value);
}

template <class T>
__global__ void __launch_bounds__(kMergeWarps* kWarpThreads)
    attention_merge_kernel(const MergeArgs args) {
    const std::int64_t item =
        static_cast<std::int64_t>(blockIdx.x) * kMergeWarps + warp_index();  // (row, head)
    const int head = static_cast<int>(item % args.num_heads);
    std::int64_t row = item / args.num_heads;
    if (row >= args.num_rows) {
        return;
    }
    int range = 0;
    while (row >= args.ranges[range].count) {
        row -= args.ranges[range].count;
        range++;
    }
    row += args.ranges[range].begin;

    const std::int64_t at = head * args.num_queries + row;
    const float lse = args.lse_HT[at];
    const float lse_sum = args.lse_sum_HT[at];
    __syncwarp();  // every lane has read the sum's lse before one of them replaces it
    const float top = fmaxf(lse, lse_sum);
    if (top == kMinusInfinity) {
        return;  // neither side has seen a key: o_sum is 0 and stays so
    }
    const float total = expf(lse - top) + expf(lse_sum - top);  // from 1 to 2
    const float weight = __fdividef(expf(lse - top), total);
    const float weight_sum = __fdividef(expf(lse_sum - top), total);
    const T* const o = static_cast<const T*>(args.o.data) + row * args.o.stride +
                       static_cast<std::int64_t>(head) * args.head_dim;
    float* const o_sum =
        args.o_sum + row * args.o_sum_stride + static_cast<std::int64_t>(head) * args.head_dim;
    for (int d = lane_index(); d < args.head_dim; d += kWarpThreads) {
        o_sum[d] = weight * as_float(o[d]) + weight_sum * o_sum[d];
    }
    if (lane_index() == 0) {
        args.lse_sum_HT[at] = top + logf(total);
    }
}

// The queries of the spans as few ranges of rows, in order.
std::vector<RowRange> ranges_of(std::span<const AttentionSpan> spans) {
    std::vector<RowRange> ranges;
    for (const AttentionSpan& span : spans) {
        if (span.q_count > 0) {
            ranges.push_back({span.q_begin, span.q_count});
        }
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
    std::vector<RowRange> joined;
    for (const RowRange& range : ranges) {
        if (!joined.empty() && joined.back().begin + joined.back().count == range.begin) {
            joined.back().count += range.count;
        } else {
            joined.push_back(range);
        }
    }
    return joined;
}

}  // namespace

void attention_merge(Queue& queue, const AttentionMerge& args) {
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    const std::vector<RowRange> ranges = ranges_of(args.spans);
    MergeArgs merge{.o = rows_of(args.o_THD),
                    .lse_HT = args.lse_HT.as<float>(),
                    .o_sum = args.o_sum_THD.as<float>(),
                    .o_sum_stride = args.o_sum_THD.row_stride(),
                    .lse_sum_HT = args.lse_sum_HT.as<float>(),
                    .num_queries = args.lse_HT.dim(1),
                    .num_heads = static_cast<int>(args.o_THD.dim(1)),
                    .head_dim = static_cast<int>(args.o_THD.dim(2))};
    for (std::size_t begin = 0; begin < ranges.size(); begin += kRangesALaunch) {
        const std::size_t end = std::min(begin + kRangesALaunch, ranges.size());
        std::copy(ranges.begin() + static_cast<std::ptrdiff_t>(begin),
                  ranges.begin() + static_cast<std::ptrdiff_t>(end), merge.ranges);
        merge.num_ranges = static_cast<int>(end - begin);
        merge.num_rows = 0;
        for (int i = 0; i < merge.num_ranges; i++) {
            merge.num_rows += merge.ranges[i].count;
        }
        const auto blocks = static_cast<unsigned>(
            (merge.num_rows * merge.num_heads + kMergeWarps - 1) / kMergeWarps);
        if (blocks == 0) {
            continue;
        }
        if (args.o_THD.dtype() == DType::kBFloat16) {
            DCP_LAUNCH(attention_merge_kernel<bf16>, blocks, kMergeWarps * kWarpThreads, 0, stream,
                       merge);
        } else {
            DCP_LAUNCH(attention_merge_kernel<float>, blocks, kMergeWarps * kWarpThreads, 0, stream,
                       merge);
        }
        dcp::cuda::check_launch("attention_merge", stream);
    }
}

}  // namespace dcp::kernels::cuda
