#include "core/data/length_stats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace dcp::data {
namespace {

double quantile(const std::vector<std::int64_t>& sorted, double share) {
    const double place = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(static_cast<double>(sorted[below]), static_cast<double>(sorted[above]),
                     place - static_cast<double>(below));
}

std::vector<LengthBucket> count_buckets(const std::vector<std::int64_t>& sorted) {
    std::vector<LengthBucket> buckets;
    for (const std::int64_t length : sorted) {
        if (length < 1) {
            continue;
        }
        if (buckets.empty()) {
            const auto first =
                static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(length)));
            buckets.push_back({first, 2 * first - 1, 0, 0});
        }
        while (length > buckets.back().last) {
            const std::int64_t first = buckets.back().last + 1;
            buckets.push_back({first, 2 * first - 1, 0, 0});
        }
        ++buckets.back().count;
        buckets.back().sum += length;
    }
    return buckets;
}

}  // namespace

LengthStats summarize(std::vector<std::int64_t> lengths) {
    LengthStats stats;
    if (lengths.empty()) {
        return stats;
    }
    std::sort(lengths.begin(), lengths.end());
    stats.count = static_cast<std::int64_t>(lengths.size());
    stats.sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    stats.min = lengths.front();
    stats.max = lengths.back();
    stats.mean = static_cast<double>(stats.sum) / static_cast<double>(stats.count);
    stats.median = quantile(lengths, 0.5);
    stats.p90 = quantile(lengths, 0.9);
    stats.p99 = quantile(lengths, 0.99);
    stats.buckets = count_buckets(lengths);
    return stats;
}

}  // namespace dcp::data
