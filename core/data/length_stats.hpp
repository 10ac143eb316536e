// Lengths summed up for people: order statistics and a histogram by powers of two.
#pragma once

#include <cstdint>
#include <vector>

namespace dcp::data {

struct LengthBucket {
    std::int64_t first = 0;  // lengths first .. last, a power of two to the next minus 1
    std::int64_t last = 0;
    std::int64_t count = 0;
    std::int64_t sum = 0;
};

struct LengthStats {
    std::int64_t count = 0;
    std::int64_t sum = 0;
    std::int64_t min = 0;
    std::int64_t max = 0;
    double mean = 0;
    double median = 0;  // between two lengths: linear interpolation, here and below
    double p90 = 0;
    double p99 = 0;
    // Of the positive lengths, from the bucket of the shortest to that of the longest, gaps
    // included; lengths of 0 are in none.
    std::vector<LengthBucket> buckets;
};

LengthStats summarize(std::vector<std::int64_t> lengths);  // none below 0; all zeros without any

}  // namespace dcp::data
