// Gathering rows of the table, and adding rows of gradients to it. In the backward pass a thread
// owns a range of columns and walks all tokens in order: no two threads meet, and the order of
// every sum is the order of the tokens.
#include <algorithm>

#include "kernels/cpu/hwy_targets.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_operations.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dcp::kernels::cpu::HWY_NAMESPACE {
namespace {

void gather_rows(const std::int32_t* tokens, ConstTensor table, Tensor x) {
    const auto table_rows = rows_of<float>(table);
    const auto kernel = [&](auto x_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < x.dim(0); ++t) {
            const float* from = table_rows[tokens[t]];
            const auto to = x_rows[t];
            for_columns(x.dim(1), [&](std::int64_t c, auto lanes)
                                      HWY_ATTR { store(load(from + c, lanes), to + c, lanes); });
        }
    };
    with_rows(kernel, x);
}

void scatter_rows(const std::int32_t* tokens, ConstTensor d_x, Tensor d_table) {
    const auto d_table_rows = rows_of<float>(d_table);
    const auto kernel = [&](auto d_x_rows) HWY_ATTR {
        for (std::int64_t t = 0; t < d_x.dim(0); ++t) {
            const auto from = d_x_rows[t];
            float* to = d_table_rows[tokens[t]];
            for_columns(d_x.dim(1), [&](std::int64_t c, auto lanes) HWY_ATTR {
                store(hn::Add(load(to + c, lanes), load(from + c, lanes)), to + c, lanes);
            });
        }
    };
    with_rows(kernel, d_x);
}

}  // namespace
}  // namespace dcp::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dcp::kernels::cpu {

HWY_EXPORT(gather_rows);
HWY_EXPORT(scatter_rows);

void embedding_forward(const Queue& queue, const EmbeddingForward& args) {
    const std::int64_t piece = rows_per_piece(args.x_TC.dim(1));
    const auto* tokens = args.tokens_T.as<std::int32_t>();
    for_pieces(queue, args.x_TC.dim(0), piece, [&](std::int64_t begin, std::int64_t count) {
        HWY_DYNAMIC_DISPATCH(gather_rows)
        (tokens + begin, args.table_VC, args.x_TC.rows(begin, count));
    });
}

void embedding_backward(const Queue& queue, const EmbeddingBackward& args) {
    if (args.mode == GradMode::kOverwrite) {
        fill_zero(queue, args.d_table_VC);
    }
    // Whole cache lines of the table. Columns do not meet, so this split may follow the threads.
    constexpr std::int64_t kLineFloats = 16;
    const std::int64_t C = args.d_x_TC.dim(1);
    const std::int64_t lines = ceil_div(ceil_div(C, kLineFloats), queue.threads());
    const auto* tokens = args.tokens_T.as<std::int32_t>();
    const std::int64_t piece = std::max<std::int64_t>(lines, 1) * kLineFloats;
    for_pieces(queue, C, piece, [&](std::int64_t begin, std::int64_t count) {
        HWY_DYNAMIC_DISPATCH(scatter_rows)
        (tokens, args.d_x_TC.columns(begin, count), args.d_table_VC.columns(begin, count));
    });
}

}  // namespace dcp::kernels::cpu
#endif
