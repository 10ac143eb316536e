// The two backward passes.
//
// Towards the input: as forward, tile by tile, with the derivative of f applied to the tile that a
// product has just made. Gradients of a norm's parameters are summed for each tile on its own and
// the tiles added in their order.
//
// Towards the weight: f(x) is made again for a chunk of rows, all threads together; then each
// thread takes tiles of d_w and adds the chunk's product to them. The order of additions is that of
// the chunks.
#include "kernels/cpu/linear_backward.hpp"

#include <algorithm>

#include <omp.h>

#include "kernels/cpu/linear.hpp"
#include "kernels/cpu/linear_input.hpp"
#include "kernels/cpu/linear_scratch.hpp"
#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

namespace {

void backward_input_tile(const LinearBackwardInput& args,
                         const PreparedWeight& weight,
                         const ThreadScratch& scratch,
                         const NormPartials& partials,
                         std::int64_t begin,
                         std::int64_t rows) {
    const TileProduct& product = weight.backward;
    const ConstTensor d_y = args.d_y_TN.rows(begin, rows);
    const DType d_x_type = args.d_x.dtype();
    const bool direct = args.input.kind == InputKind::kPlain && !args.residual_TK &&
                        args.d_x.is_contiguous() && product.stores(d_x_type) &&
                        product.touched_rows(rows, d_x_type) == rows;
    const DType output = direct ? d_x_type : DType::kFloat32;
    const std::int64_t touched = product.touched_rows(rows, output);

    const void* source = d_y.data();
    if (!d_y.is_contiguous() || touched != rows) {
        const Tensor tile = scratch.input_tile(args.weight.dtype, touched, args.weight.N);
        add_rows(d_y, {}, tile.rows(0, rows));
        clear_rows(tile, rows);
        source = tile.data();
    }
    const Tensor product_tile = scratch.output_tile(touched, args.weight.K);
    void* result = direct ? args.d_x.rows(begin, rows).data() : product_tile.data();
    product.run(rows, source, weight.backward_packed, result, output, scratch.scratchpad);
    if (!direct) {
        input_rows_backward(args.input, begin, product_tile.rows(0, rows), args.residual_TK,
                            args.d_x, partials);
    }
}

}  // namespace

void add_norm_partials(ConstTensor partials, std::int64_t offset, Tensor total_K) {
    auto* total = total_K.as<float>();
    const auto* first = partials.as<float>() + offset;
    for (std::int64_t tile = 0; tile < partials.dim(0); ++tile) {
        const float* of_tile = first + tile * partials.row_stride();
        for (std::int64_t k = 0; k < total_K.dim(0); ++k) {
            total[k] += of_tile[k];
        }
    }
}

void linear_backward_input(Queue& queue, const LinearBackwardInput& args) {
    const PreparedWeight weight(args.weight);
    const std::int64_t K = args.weight.K;
    const Pieces tiles = row_tiles(args.d_y_TN.dim(0));
    const LinearScratch scratch(queue.threads(), args.weight, tiles.total, args.workspace.data());
    const Tensor partials = scratch.partials(tiles.count());
    const bool has_norm = is_norm(args.input.kind);
#pragma omp parallel num_threads(queue.threads())
    {
        const OneThread one_thread;
        const ThreadScratch own = scratch.of_thread(omp_get_thread_num());
#pragma omp for schedule(dynamic)
        for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
            NormPartials of_tile;
            if (has_norm) {
                const Tensor row = partials.rows(tile, 1);
                clear_rows(row, 0);
                of_tile = {row.as<float>(), row.as<float>() + K};
            }
            backward_input_tile(args, weight, own, of_tile, tiles.begin(tile), tiles.size(tile));
        }
    }
    if (has_norm) {
        add_norm_partials(partials, 0, args.d_norm_weight_K);
    }
    if (args.input.kind == InputKind::kLayerNorm) {
        add_norm_partials(partials, K, args.d_norm_bias_K);
    }
}

void linear_backward_weight(Queue& queue, const LinearBackwardWeight& args) {
    constexpr std::int64_t kInputRows = 64;
    const LinearInput& input = args.input;
    const std::int64_t T = args.d_y_TN.dim(0);
    const Pieces chunks{T, LinearScratch::kChunkRows};
    const WeightProduct& product = weight_product(args.weight.dtype, args.weight.N, args.weight.K);
    const LinearScratch scratch(queue.threads(), args.weight, T, args.workspace.data());
#pragma omp parallel num_threads(queue.threads())
    {
        const OneThread one_thread;
        const ThreadScratch own = scratch.of_thread(omp_get_thread_num());
        if (args.mode == GradMode::kOverwrite) {
#pragma omp for
            for (std::int64_t row = 0; row < args.weight.N; ++row) {
                clear_rows(args.d_w_NK.rows(row, 1), 0);
            }
        }
        for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
            const std::int64_t begin = chunks.begin(chunk);
            const std::int64_t rows = chunks.size(chunk);
            ConstTensor f_TK = input.x.rows(begin, rows);
            if (input.kind != InputKind::kPlain) {
                const Tensor made = scratch.chunk(rows);
                const Pieces parts{rows, kInputRows};
#pragma omp for schedule(dynamic)
                for (std::int64_t part = 0; part < parts.count(); ++part) {
                    input_rows_forward(input, begin + parts.begin(part), Statistics::kRead,
                                       made.rows(parts.begin(part), parts.size(part)));
                }
                f_TK = made;
            }
            const ConstTensor d_y_TN = args.d_y_TN.rows(begin, rows);
#pragma omp for schedule(dynamic)
            for (std::int64_t tile = 0; tile < product.num_tiles(); ++tile) {
                product.add(tile, d_y_TN, f_TK, args.d_w_NK, own.input);
            }
        }
    }
}

std::size_t linear_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K) {
    return LinearScratch::bytes(queue.threads(), dtype, T, N, K);
}

}  // namespace dcp::kernels::cpu
