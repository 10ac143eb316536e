// How the rows of a linear layer are cut into tiles, and where scratch memory lies in the bytes
// that the caller hands in. Tiles depend on shapes only, never on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/tensor.hpp"

namespace dcp::kernels::cpu {

// Consecutive pieces of [0, total), all of `piece` but the last.
struct Pieces {
    std::int64_t total = 0;
    std::int64_t piece = 1;

    std::int64_t count() const { return (total + piece - 1) / piece; }
    std::int64_t begin(std::int64_t index) const { return index * piece; }
    std::int64_t size(std::int64_t index) const { return std::min(piece, total - begin(index)); }
};

// Tiles large enough to multiply fast and to read a weight seldom, small enough that short inputs
// still keep several threads busy.
inline Pieces row_tiles(std::int64_t T) {
    return {T, T >= 1024 ? 128 : T >= 256 ? 64 : 32};
}

// Hands out 64-byte aligned parts of a workspace; with a null workspace it only counts.
class Carver {
public:
    explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}

    void* bytes(std::int64_t count) {
        const std::int64_t begin = used_;
        used_ += (count + kAlignment - 1) / kAlignment * kAlignment;
        return base_ == nullptr ? nullptr : base_ + begin;
    }
    Tensor tensor(DType dtype, Shape shape) {
        const auto elem_bytes = static_cast<std::int64_t>(size_bytes(dtype));
        return {bytes(shape.num_elems() * elem_bytes), dtype, shape};
    }
    std::int64_t used_bytes() const { return used_; }
    // Room that aligning the base may take is part of it.
    std::size_t needed_bytes() const { return static_cast<std::size_t>(used_ + kAlignment); }

    static void* align(void* base) {
        const auto address = reinterpret_cast<std::uintptr_t>(base);
        const auto past = address % static_cast<std::uintptr_t>(kAlignment);
        const auto step = past == 0 ? 0 : static_cast<std::uintptr_t>(kAlignment) - past;
        return static_cast<std::byte*>(base) + step;
    }

private:
    static constexpr std::int64_t kAlignment = 64;

    std::byte* base_;
    std::int64_t used_ = 0;
};

}  // namespace dcp::kernels::cpu
