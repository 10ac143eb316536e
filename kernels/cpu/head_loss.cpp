// Blocks of rows, and in a block tiles of rows: f(x), logits, loss, gradient of the logits and of x
// follow each other in one thread while the tile is in its cache; then all threads share the
// weight's gradient of the block. A block is long enough that reading and writing the weight's
// gradient once for it costs little, and short enough that its logits stay within kBlockBytes.
#include <algorithm>

#include <omp.h>

#include "kernels/cpu/linear.hpp"
#include "kernels/cpu/linear_backward.hpp"
#include "kernels/cpu/linear_input.hpp"
#include "kernels/cpu/linear_scratch.hpp"
#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

namespace {

constexpr std::int64_t kBlockBytes = 64LL << 20U;
constexpr std::int64_t kMaxBlockRows = 1024;

Pieces row_blocks(std::int64_t T, std::int64_t V) {
    constexpr std::int64_t kTile = TileProduct::kMaxRows;
    const std::int64_t fitting = kBlockBytes / (V * 4) / kTile * kTile;
    return {T, std::clamp(fitting, kTile, kMaxBlockRows)};
}

// The tiles of a block of `rows` rows. A row of logits is a hundred times longer than a row of x,
// so they are shorter than elsewhere.
Pieces block_tiles(const Pieces& blocks, std::int64_t rows) {
    return {rows, std::min(blocks.total, blocks.piece) >= 256 ? 64 : 32};
}

class HeadScratch {
public:
    HeadScratch(int threads, const LinearWeight& weight, std::int64_t T, Carver carver)
        : weight_(weight) {
        const Pieces blocks = row_blocks(T, weight.N);
        // Tiles may read and write up to a whole product tile past the last row.
        const std::int64_t rows = std::min(T, blocks.piece) + TileProduct::kMaxRows;
        f_ = carver.tensor(weight.dtype, {rows, weight.K});
        d_logits_ = carver.tensor(weight.dtype, {rows, weight.N});
        const std::int64_t tiles =
            blocks.count() * block_tiles(blocks, std::min(T, blocks.piece)).count();
        partials_ = carver.tensor(DType::kFloat32, {tiles, 2 * weight.K});
        Carver one(nullptr);
        carve_thread(one, weight);
        thread_bytes_ = one.used_bytes();
        of_threads_ = static_cast<std::byte*>(carver.bytes(threads * thread_bytes_));
        needed_bytes_ = carver.needed_bytes();
    }

    const Tensor& f() const { return f_; }
    const Tensor& d_logits() const { return d_logits_; }
    const Tensor& partials() const { return partials_; }
    std::size_t needed_bytes() const { return needed_bytes_; }
    ThreadScratch of_thread(int thread) const {
        Carver carver(of_threads_ + thread * thread_bytes_);
        return carve_thread(carver, weight_);
    }

private:
    LinearWeight weight_;
    Tensor f_;
    Tensor d_logits_;
    Tensor partials_;
    std::byte* of_threads_ = nullptr;
    std::int64_t thread_bytes_ = 0;
    std::size_t needed_bytes_ = 0;
};

struct Tile {
    std::int64_t in_block;  // first row, counted from the block's first
    std::int64_t begin;     // first row, counted from the first of all
    std::int64_t rows;
};

void head_tile(const HeadLoss& args,
               const PreparedWeight& weight,
               const HeadScratch& shared,
               const ThreadScratch& own,
               const Tile& tile,
               const NormPartials& partials) {
    const bool trains = static_cast<bool>(args.d_x_TC);
    const std::int64_t rows = tile.rows;
    const std::int64_t touched = std::max(weight.forward.touched_rows(rows, DType::kFloat32),
                                          weight.backward.touched_rows(rows, DType::kFloat32));

    const Tensor f = shared.f().rows(tile.in_block, touched);
    input_rows_forward(args.input, tile.begin, Statistics::kWrite, f.rows(0, rows));
    clear_rows(f, rows);
    const Tensor logits = own.output_tile(touched, args.weight.N);
    weight.forward.run(rows, f.data(), weight.forward_packed, logits.data(), DType::kFloat32,
                       own.scratchpad);

    const Tensor d_logits = trains ? shared.d_logits().rows(tile.in_block, touched) : Tensor{};
    const float* weights = trains ? args.weights_T.as<float>() + tile.begin : nullptr;
    cross_entropy_rows(logits.rows(0, rows), args.targets_T.as<std::int32_t>() + tile.begin,
                       weights, args.loss_T.as<float>() + tile.begin,
                       trains ? d_logits.rows(0, rows) : Tensor{});
    if (!trains) {
        return;
    }
    clear_rows(d_logits, rows);
    const Tensor d_f = own.output_tile(touched, args.weight.K);
    weight.backward.run(rows, d_logits.data(), weight.backward_packed, d_f.data(), DType::kFloat32,
                        own.scratchpad);
    input_rows_backward(args.input, tile.begin, d_f.rows(0, rows), {}, args.d_x_TC, partials);
}

NormPartials clear_partials(const HeadScratch& shared, std::int64_t index) {
    const Tensor row = shared.partials().rows(index, 1);
    clear_rows(row, 0);
    auto* first = row.as<float>();
    return {first, first + row.dim(1) / 2};
}

void add_partials(const HeadLoss& args, const Tensor& partials) {
    if (!args.d_x_TC || !is_norm(args.input.kind)) {
        return;
    }
    add_norm_partials(partials, 0, args.d_norm_weight_C);
    if (args.input.kind == InputKind::kLayerNorm) {
        add_norm_partials(partials, args.weight.K, args.d_norm_bias_C);
    }
}

}  // namespace

void head_loss(Queue& queue, const HeadLoss& args) {
    const PreparedWeight weight(args.weight);
    const std::int64_t T = args.input.x.dim(0);
    const Pieces blocks = row_blocks(T, args.weight.N);
    const WeightProduct& weight_gradient =
        weight_product(args.weight.dtype, args.weight.N, args.weight.K);
    const HeadScratch shared(queue.threads(), args.weight, T,
                             Carver(Carver::align(args.workspace.data())));
    std::int64_t tiles_before = 0;
    for (std::int64_t block = 0; block < blocks.count(); ++block) {
        const std::int64_t rows = blocks.size(block);
        const Pieces tiles = block_tiles(blocks, rows);
#pragma omp parallel num_threads(queue.threads())
        {
            const OneThread one_thread;
            const ThreadScratch own = shared.of_thread(omp_get_thread_num());
#pragma omp for schedule(dynamic)
            for (std::int64_t index = 0; index < tiles.count(); ++index) {
                const Tile tile{.in_block = tiles.begin(index),
                                .begin = blocks.begin(block) + tiles.begin(index),
                                .rows = tiles.size(index)};
                head_tile(args, weight, shared, own, tile,
                          clear_partials(shared, tiles_before + index));
            }
            if (args.d_w_VC) {
                const ConstTensor f = shared.f().rows(0, rows);
                const ConstTensor d_logits = shared.d_logits().rows(0, rows);
#pragma omp for schedule(dynamic)
                for (std::int64_t tile = 0; tile < weight_gradient.num_tiles(); ++tile) {
                    weight_gradient.add(tile, d_logits, f, args.d_w_VC, own.input);
                }
            }
        }
        tiles_before += tiles.count();
    }
    add_partials(args, shared.partials().rows(0, tiles_before));
}

std::size_t head_loss_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t V, std::int64_t C) {
    const LinearWeight weight{.prepared = {}, .dtype = dtype, .N = V, .K = C};
    return HeadScratch(queue.threads(), weight, T, Carver(nullptr)).needed_bytes();
}

}  // namespace dcp::kernels::cpu
