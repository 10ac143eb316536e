// Prepared weights and the forward pass.
//
// A thread takes a tile of rows, makes f(x) of it in its own scratch memory, multiplies, and
// finishes the tile (residual, rotation) before it leaves the cache.
#include <cstring>

#include <omp.h>

#include "kernels/cpu/linear.hpp"
#include "kernels/cpu/linear_input.hpp"
#include "kernels/cpu/linear_scratch.hpp"
#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

bool supports_dtype(DType dtype) {
    if (dtype == DType::kFloat32) {
        return true;
    }
    // A larger instruction set contains the bits of the smaller ones. Without AVX512_BF16 oneDNN
    // would refuse or emulate, slower than fp32.
    const auto best = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return dtype == DType::kBFloat16 && (best & needed) == needed;
}

std::size_t linear_prepared_bytes(DType dtype, std::int64_t N, std::int64_t K) {
    return PreparedWeight::bytes(dtype, N, K);
}

void linear_prepare(Queue& queue, ConstTensor master_NK, const LinearWeight& weight) {
    const PreparedWeight prepared(weight);
    prepared.forward.pack(master_NK, true, queue.threads(), prepared.forward_packed);
    prepared.backward.pack(master_NK, false, queue.threads(), prepared.backward_packed);
}

namespace {

void forward_tile(const LinearForward& args,
                  const PreparedWeight& weight,
                  const ThreadScratch& scratch,
                  std::int64_t begin,
                  std::int64_t rows) {
    const TileProduct& product = weight.forward;
    const DType compute = args.weight.dtype;
    const Tensor y = args.y_TN.rows(begin, rows);
    const bool direct = !args.residual_TN && y.is_contiguous() && product.stores(y.dtype()) &&
                        product.touched_rows(rows, y.dtype()) == rows;
    const DType output = direct ? y.dtype() : DType::kFloat32;
    const std::int64_t touched = product.touched_rows(rows, output);

    const void* f = args.input.x.rows(begin, rows).data();
    if (args.input.kind != InputKind::kPlain || !args.input.x.is_contiguous() || touched != rows) {
        const Tensor tile = scratch.input_tile(compute, touched, args.weight.K);
        input_rows_forward(args.input, begin, Statistics::kWrite, tile.rows(0, rows));
        clear_rows(tile, rows);
        f = tile.data();
    }
    const Tensor product_tile = scratch.output_tile(touched, args.weight.N);
    product.run(rows, f, weight.forward_packed, direct ? y.data() : product_tile.data(), output,
                scratch.scratchpad);
    if (!direct) {
        const ConstTensor residual =
            args.residual_TN ? args.residual_TN.rows(begin, rows) : ConstTensor{};
        add_rows(product_tile.rows(0, rows), residual, y);
    }
    if (args.rope.num_heads > 0) {
        rope_rows(y, args.rope.num_heads, args.rope.head_dim,
                  args.rope.positions_T.as<std::int32_t>() + begin, args.rope.cos_PD,
                  args.rope.sin_PD, false);
    }
}

}  // namespace

void linear_forward(Queue& queue, const LinearForward& args) {
    const PreparedWeight weight(args.weight);
    const Pieces tiles = row_tiles(args.y_TN.dim(0));
    const LinearScratch scratch(queue.threads(), args.weight, tiles.total, args.workspace.data());
#pragma omp parallel num_threads(queue.threads())
    {
        const OneThread one_thread;
        const ThreadScratch own = scratch.of_thread(omp_get_thread_num());
#pragma omp for schedule(dynamic)
        for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
            forward_tile(args, weight, own, tiles.begin(tile), tiles.size(tile));
        }
    }
}

}  // namespace dcp::kernels::cpu
