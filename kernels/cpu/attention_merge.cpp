// Merging partial results of attention: a weighted sum of two rows for every query and head. Bound
// by memory, so the weights are computed one at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/exchange_rows.hpp"
#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/parallel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_merge.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

// sum = sum_weight * sum + weight * from, for one head of one query.
void blend(const void* from,
           DType dtype,
           float weight,
           float sum_weight,
           float* sum,
           std::int64_t head_dim) {
    const auto run = [&](auto part) HWY_ATTR {
        for_columns(head_dim, [&](std::int64_t d, auto lanes) HWY_ATTR {
            const auto scaled = hn::Mul(load(sum + d, lanes), splat(sum_weight));
            store(hn::MulAdd(load(part + d, lanes), splat(weight), scaled), sum + d, lanes);
        });
    };
    if (dtype == DType::kFloat32) {
        run(static_cast<const float*>(from));
    } else {
        run(static_cast<const BFloat16*>(from));
    }
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(blend);

namespace {

void merge_query(const AttentionMerge& args, std::int64_t query) {
    const std::int64_t D = args.o_THD.dim(2);
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(args.o_THD.dtype()));
    const auto* o = static_cast<const std::byte*>(args.o_THD.data()) +
                    query * args.o_THD.row_stride() * elem_bytes;
    float* o_sum = args.o_sum_THD.as<float>() + query * args.o_sum_THD.row_stride();
    for (std::int64_t head = 0; head < args.o_THD.dim(1); ++head) {
        const float added = args.lse_HT.as<float>()[head * args.lse_HT.row_stride() + query];
        float& sum = args.lse_sum_HT.as<float>()[head * args.lse_sum_HT.row_stride() + query];
        if (added == -std::numeric_limits<float>::infinity()) {
            continue;
        }
        // One of the exponents is 0, so nothing overflows; minus infinity in `sum` has weight 0.
        const float largest = std::max(sum, added);
        const float merged =
            largest + std::log(std::exp(sum - largest) + std::exp(added - largest));
        HWY_DYNAMIC_DISPATCH(blend)
        (o + head * D * elem_bytes, args.o_THD.dtype(), std::exp(added - merged),
         std::exp(sum - merged), o_sum + head * D, D);
        sum = merged;
    }
}

}  // namespace

void attention_merge(const Queue& queue, const AttentionMerge& args) {
    const std::int64_t piece = rows_per_piece(args.o_THD.dim(1) * args.o_THD.dim(2));
    for (std::size_t i = 0; i < args.spans.size();) {
        // Spans that follow each other are one range: short sequences fill the threads together.
        const std::int64_t first = args.spans[i].q_begin;
        std::int64_t end = first;
        for (; i < args.spans.size() && args.spans[i].q_begin == end; ++i) {
            end += args.spans[i].q_count;
        }
        for_pieces(queue, end - first, piece, [&](std::int64_t begin, std::int64_t count) {
            for (std::int64_t query = begin; query < begin + count; ++query) {
                merge_query(args, first + query);
            }
        });
    }
}

}  // namespace dcp::kernels::cpu
#endif
