// Sums of row blocks. Two terms are one pass of the vector loops; more go through a strip of fp32
// in cache, so that bf16 is rounded only at the end.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu/exchange_rows.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

namespace {

// Bytes of every row, whatever they mean.
template <class Body>
void for_row_bytes(const Tensor& to, const Body& body) {
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(to.dtype()));
    auto* first = static_cast<std::byte*>(to.data());
    for (std::int64_t t = 0; t < to.dim(0); ++t) {
        body(t, first + t * to.row_stride() * elem_bytes,
             static_cast<std::size_t>(to.dim(1) * elem_bytes));
    }
}

void zero(const Tensor& to) {
    for_row_bytes(
        to, [](std::int64_t, std::byte* row, std::size_t bytes) { std::memset(row, 0, bytes); });
}

void copy(const ConstTensor& from, const Tensor& to) {
    const auto* first = static_cast<const std::byte*>(from.data());
    const std::int64_t stride_bytes =
        from.row_stride() * static_cast<std::int64_t>(size_bytes(from.dtype()));
    for_row_bytes(to, [&](std::int64_t t, std::byte* row, std::size_t bytes) {
        if (row != first + t * stride_bytes) {
            std::memcpy(row, first + t * stride_bytes, bytes);
        }
    });
}

void sum_many(std::span<const ConstTensor> from,
              std::int64_t begin,
              std::int64_t count,
              const Tensor& to) {
    constexpr std::int64_t kStrip = 512;
    std::array<float, kStrip> memory;
    for (std::int64_t t = begin; t < begin + count; ++t) {
        for (std::int64_t c = 0; c < to.dim(1); c += kStrip) {
            const std::int64_t columns = std::min(kStrip, to.dim(1) - c);
            const auto strip_of = [&](const auto& rows) {
                return rows.rows(t, 1).columns(c, columns);
            };
            const Tensor strip(memory.data(), DType::kFloat32, {1, columns});
            add_rows(strip_of(from[0]), strip_of(from[1]), strip);
            for (std::size_t i = 2; i + 1 < from.size(); ++i) {
                add_rows(strip, strip_of(from[i]), strip);
            }
            add_rows(strip, strip_of(from.back()), strip_of(to));
        }
    }
}

}  // namespace

void sum_rows(const Queue& queue, const SumRows& args) {
    if (args.to.num_elems() == 0) {
        return;
    }
    const auto from = args.from;
    for_pieces(queue, args.to.dim(0), rows_per_piece(args.to.dim(1)),
               [&](std::int64_t begin, std::int64_t count) {
                   const Tensor to = args.to.rows(begin, count);
                   if (from.empty()) {
                       zero(to);
                   } else if (from.size() == 1 && from[0].dtype() == to.dtype()) {
                       copy(from[0].rows(begin, count), to);
                   } else if (from.size() <= 2) {
                       add_rows(from[0].rows(begin, count),
                                from.size() == 2 ? from[1].rows(begin, count) : ConstTensor(), to);
                   } else {
                       sum_many(from, begin, count, args.to);
                   }
               });
}

}  // namespace dcp::kernels::cpu
