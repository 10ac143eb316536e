#include "comm/ordered_reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "core/base/dtype.hpp"

namespace dcp::comm {

namespace {

// Values that one pass keeps in a local array: 8 KiB of double stay in the first-level cache.
constexpr std::int64_t kTile = 1024;
// Below this many values starting the threads costs more than it saves.
constexpr std::int64_t kParallelValues = std::int64_t{64} << 10;

template <class Value>
Value larger(Value a, Value b) {
    if constexpr (std::is_floating_point_v<Value>) {
        return a > b || std::isnan(a) ? a : b;
    } else {
        return std::max(a, b);
    }
}

// Stored is what lies in memory, Sum what it is added in.
template <class Stored, class Sum>
void reduce_tile(ReduceOp op,
                 std::span<const void* const> blocks,
                 Stored* out,
                 std::int64_t begin,
                 std::int64_t count) {
    std::array<Sum, kTile> sums;
    for (std::size_t index = 0; index < blocks.size(); ++index) {
        const Stored* block = static_cast<const Stored*>(blocks[index]) + begin;
        for (std::int64_t i = 0; i < count; ++i) {
            const Sum value = static_cast<Sum>(block[i]);
            Sum& sum = sums[static_cast<std::size_t>(i)];
            if (index == 0) {
                sum = value;
            } else {
                sum = op == ReduceOp::kSum ? sum + value : larger(sum, value);
            }
        }
    }
    for (std::int64_t i = 0; i < count; ++i) {
        out[begin + i] = static_cast<Stored>(sums[static_cast<std::size_t>(i)]);
    }
}

template <class Stored, class Sum>
void reduce_all(const Queue& queue,
                ReduceOp op,
                std::span<const void* const> blocks,
                void* out,
                std::int64_t num_values) {
    const int threads = num_values < kParallelValues ? 1 : queue.threads();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (std::int64_t begin = 0; begin < num_values; begin += kTile) {
        reduce_tile<Stored, Sum>(op, blocks, static_cast<Stored*>(out), begin,
                                 std::min(kTile, num_values - begin));
    }
}

}  // namespace

void ordered_reduce(Queue& queue,
                    Number number,
                    ReduceOp op,
                    std::span<const void* const> blocks,
                    void* out,
                    std::int64_t num_values) {
    switch (number) {
        case Number::kFloat32:
            return reduce_all<float, float>(queue, op, blocks, out, num_values);
        case Number::kBFloat16:
            return reduce_all<BFloat16, float>(queue, op, blocks, out, num_values);
        case Number::kFloat64:
            return reduce_all<double, double>(queue, op, blocks, out, num_values);
        case Number::kInt64:
            return reduce_all<std::int64_t, std::int64_t>(queue, op, blocks, out, num_values);
    }
}

}  // namespace dcp::comm
