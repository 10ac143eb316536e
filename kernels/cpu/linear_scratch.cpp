#include "kernels/cpu/linear_scratch.hpp"

#include <algorithm>
#include <cstring>

namespace dcp::kernels::cpu {

namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t forward_bytes(const TileProduct& forward) {
    const auto bytes = static_cast<std::int64_t>(forward.packed_bytes());
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

ThreadScratch carve_thread(Carver& carver, const LinearWeight& weight) {
    const auto& forward = tile_product(weight.dtype, weight.K, weight.N);
    const auto& backward = tile_product(weight.dtype, weight.N, weight.K);
    const auto& gradient = weight_product(weight.dtype, weight.N, weight.K);
    const std::int64_t tile_elems = TileProduct::kMaxRows * std::max(weight.N, weight.K);
    const auto input_bytes = tile_elems * static_cast<std::int64_t>(size_bytes(weight.dtype));
    const std::size_t scratchpad_bytes =
        std::max(forward.scratchpad_bytes(), backward.scratchpad_bytes());
    ThreadScratch scratch;
    scratch.input =
        carver.bytes(std::max(input_bytes, static_cast<std::int64_t>(gradient.scratch_bytes())));
    scratch.output = carver.tensor(DType::kFloat32, {tile_elems}).data();
    scratch.scratchpad = carver.bytes(static_cast<std::int64_t>(scratchpad_bytes));
    return scratch;
}

PreparedWeight::PreparedWeight(const LinearWeight& weight)
    : forward(tile_product(weight.dtype, weight.K, weight.N)),
      backward(tile_product(weight.dtype, weight.N, weight.K)),
      forward_packed(weight.prepared.data()),
      backward_packed(weight.prepared.as<std::byte>() + forward_bytes(forward)) {}

std::size_t PreparedWeight::bytes(DType dtype, std::int64_t N, std::int64_t K) {
    return static_cast<std::size_t>(forward_bytes(tile_product(dtype, K, N))) +
           tile_product(dtype, N, K).packed_bytes();
}

LinearScratch::LinearScratch(int threads,
                             const LinearWeight& weight,
                             std::int64_t T,
                             void* workspace)
    : LinearScratch(threads, weight, T, Carver(Carver::align(workspace))) {}

LinearScratch::LinearScratch(int threads, const LinearWeight& weight, std::int64_t T, Carver carver)
    : dtype_(weight.dtype), N_(weight.N), K_(weight.K) {
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(dtype_));
    const std::int64_t chunk_bytes = std::min(T, kChunkRows) * K_ * elem_bytes;
    const std::int64_t partials_bytes =
        partials(row_tiles(T).count()).num_elems() * static_cast<std::int64_t>(sizeof(float));
    shared_ = carver.bytes(std::max(chunk_bytes, partials_bytes));
    Carver one(nullptr);
    carve_thread(one, weight);
    thread_bytes_ = one.used_bytes();
    of_threads_ = static_cast<std::byte*>(carver.bytes(threads * thread_bytes_));
    needed_bytes_ = carver.needed_bytes();
}

std::size_t LinearScratch::bytes(
    int threads, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K) {
    const LinearWeight weight{.prepared = {}, .dtype = dtype, .N = N, .K = K};
    return LinearScratch(threads, weight, T, Carver(nullptr)).needed_bytes_;
}

ThreadScratch LinearScratch::of_thread(int thread) const {
    Carver carver(of_threads_ + thread * thread_bytes_);
    return carve_thread(carver, {.prepared = {}, .dtype = dtype_, .N = N_, .K = K_});
}

void clear_rows(const Tensor& tile, std::int64_t first) {
    const Tensor rest = tile.rows(first, tile.dim(0) - first);
    if (rest.num_elems() > 0) {
        std::memset(rest.data(), 0, static_cast<std::size_t>(rest.num_bytes()));
    }
}

}  // namespace dcp::kernels::cpu
