// What the passes of a linear layer share: the parts of a prepared weight and of the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/tensor.hpp"
#include "kernels/cpu/linear_products.hpp"
#include "kernels/cpu/linear_workspace.hpp"
#include "kernels/linear.hpp"

namespace dcp::kernels::cpu {

// Packed bytes for both directions, one after the other.
struct PreparedWeight {
    explicit PreparedWeight(const LinearWeight& weight);
    static std::size_t bytes(DType dtype, std::int64_t N, std::int64_t K);

    const TileProduct& forward;   // inner K, outer N
    const TileProduct& backward;  // inner N, outer K
    void* forward_packed;
    void* backward_packed;
};

// One thread's tiles: what a product reads, what it writes, and room for oneDNN itself.
struct ThreadScratch {
    void* input = nullptr;  // or what the gradient of a weight needs
    void* output = nullptr;
    void* scratchpad = nullptr;

    Tensor input_tile(DType dtype, std::int64_t rows, std::int64_t columns) const {
        return {input, dtype, Shape{rows, columns}};
    }
    Tensor output_tile(std::int64_t rows, std::int64_t columns) const {
        return {output, DType::kFloat32, Shape{rows, columns}};
    }
};

// Takes the scratch of one thread for products between N and K columns.
ThreadScratch carve_thread(Carver& carver, const LinearWeight& weight);

// The workspace of the three public functions: a part for each thread, and one that they share.
class LinearScratch {
public:
    // Rows of f(x) that the weight's gradient multiplies at a time: the more, the less often the
    // gradient is read and written.
    static constexpr std::int64_t kChunkRows = 2048;

    LinearScratch(int threads, const LinearWeight& weight, std::int64_t T, void* workspace);
    static std::size_t bytes(
        int threads, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K);

    ThreadScratch of_thread(int thread) const;
    // f(x) of the rows at hand, in the compute type.
    Tensor chunk(std::int64_t rows) const { return {shared_, dtype_, Shape{rows, K_}}; }
    // Gradients of a norm's parameters by tile: weight, then bias.
    Tensor partials(std::int64_t tiles) const {
        return {shared_, DType::kFloat32, Shape{tiles, 2 * K_}};
    }

private:
    LinearScratch(int threads, const LinearWeight& weight, std::int64_t T, Carver carver);

    DType dtype_;
    std::int64_t N_;
    std::int64_t K_;
    void* shared_;
    std::byte* of_threads_;
    std::int64_t thread_bytes_;
    std::size_t needed_bytes_;
};

// Rows [first, end) of a tile become zeros: a product reads them, nobody reads its result.
void clear_rows(const Tensor& tile, std::int64_t first);

}  // namespace dcp::kernels::cpu
