// The three matrix products of a linear layer on one thread, by oneDNN.
//
// oneDNN is always called as if there were one thread: our own loops spread tiles over threads, and
// the tiles depend on shapes only, so results cannot depend on the number of threads. Every
// primitive is made before the first product that needs it and never for a number of rows: rows
// come in tiles of a few fixed sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/base/dtype.hpp"
#include "core/base/tensor.hpp"
#include "kernels/cpu/linear_workspace.hpp"
#include "kernels/cpu/onednn.hpp"

namespace dcp::kernels::cpu {

// y[rows, outer] = x[rows, inner] B[inner, outer] for up to kMaxRows rows, B packed once for many
// calls. x and y are dense. Packed bytes are in the layout that the largest tile multiplies
// fastest; sizes that cannot read this layout are not used.
class TileProduct {
public:
    static constexpr std::int64_t kMaxRows = 128;

    TileProduct(DType compute, std::int64_t inner, std::int64_t outer);

    std::size_t packed_bytes() const { return packed_.get_size(); }
    // B = master^T for a master [outer, inner], B = master for a master [inner, outer]; fp32.
    void pack(ConstTensor master, bool transposed, int threads, void* packed) const;

    // y may be fp32 always, and the compute type where this holds.
    bool stores(DType output) const;
    // Rows that a product of `rows` rows reads and writes: more than asked for when no tile is as
    // small.
    std::int64_t touched_rows(std::int64_t rows, DType output) const;
    void run(std::int64_t rows,
             const void* x,
             const void* packed,
             void* y,
             DType output,
             void* scratchpad) const;
    std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }

private:
    static constexpr std::array<std::int64_t, 4> kTileRows = {kMaxRows, 64, 32, 16};
    // Empty where oneDNN cannot do it.
    using OfRows = std::array<dnnl::matmul, kTileRows.size()>;

    dnnl::matmul::primitive_desc describe(std::int64_t rows,
                                          DType output,
                                          const dnnl::memory::desc& packed) const;
    void add(std::size_t size_idx, DType output);
    const OfRows& of(DType output) const;
    std::size_t next_tile(std::int64_t rows, DType output) const;

    DType compute_;
    std::int64_t inner_;
    std::int64_t outer_;
    dnnl::memory::desc packed_;
    OfRows to_fp32_;
    OfRows to_compute_;
    std::size_t scratchpad_bytes_ = 0;
};

// From a cache of the process, made at the first call; the reference stays valid. Thread-safe.
const TileProduct& tile_product(DType compute, std::int64_t inner, std::int64_t outer);

// d_w[N, K] += d_y[T, N]^T f[T, K], a tile of d_w at a time: what threads share.
//
// With AMX, d_y is transposed in scratch first, for only then oneDNN uses AMX well. Elsewhere its
// general product copies as it goes and is as fast.
class WeightProduct {
public:
    WeightProduct(DType compute, std::int64_t N, std::int64_t K);

    std::int64_t num_tiles() const { return rows_.count() * columns_.count(); }
    // d_y and f in the compute type, rows may be strided; d_w fp32 and dense.
    void add(std::int64_t tile,
             ConstTensor d_y_TN,
             ConstTensor f_TK,
             Tensor d_w_NK,
             void* scratch) const;
    std::size_t scratch_bytes() const;

private:
    // Numbers of rows of d_y that a primitive for transposed d_y sums over.
    static constexpr std::array<std::int64_t, 5> kSteps = {512, 256, 128, 64, 32};
    using OfSteps = std::array<dnnl::matmul, kSteps.size()>;

    void make(std::int64_t rows, OfSteps& primitives);
    std::int64_t add_transposed(const OfSteps& primitives,
                                ConstTensor d_y,
                                ConstTensor f_TK,
                                Tensor d_w,
                                void* scratch) const;
    std::int64_t transposed_bytes() const;

    DType compute_;
    std::int64_t K_;
    bool transposes_;
    Pieces rows_;
    Pieces columns_;
    OfSteps of_whole_tile_;
    OfSteps of_last_tile_;
    std::size_t scratchpad_bytes_ = 0;
};
const WeightProduct& weight_product(DType compute, std::int64_t N, std::int64_t K);

}  // namespace dcp::kernels::cpu
