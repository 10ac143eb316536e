#include "core/profile/samples.hpp"

#include <algorithm>
#include <cmath>

namespace dcp::profile {

double median(std::vector<double> values) {
    const std::size_t middle = values.size() / 2;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                     values.end());
    const double upper = values[middle];
    if (values.size() % 2 == 1) {
        return upper;
    }
    const double lower =
        *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle));
    return (lower + upper) / 2;
}

Estimate estimate(std::span<const double> seconds) {
    constexpr double kDeviations = 5;
    constexpr double kNormal = 1.4826;  // standard deviation over median absolute deviation
    constexpr double kLeastShare = 0.2;
    if (seconds.empty()) {
        return {};
    }
    const double middle = median({seconds.begin(), seconds.end()});
    std::vector<double> deviations;
    for (const double each : seconds) {
        deviations.push_back(std::fabs(each - middle));
    }
    const double limit =
        middle + std::max(kDeviations * kNormal * median(deviations), kLeastShare * middle);
    double sum = 0;
    double squares = 0;
    int count = 0;
    for (const double each : seconds) {
        if (each <= limit) {
            sum += each;
            squares += each * each;
            ++count;
        }
    }
    const double mean = sum / count;
    Estimate result{.seconds = mean, .num_rejected = static_cast<int>(seconds.size()) - count};
    if (count > 1 && mean > 0) {
        const double variance = std::max(0.0, squares - sum * mean) / (count - 1);
        result.relative_error = std::sqrt(variance / count) / mean;
    }
    return result;
}

}  // namespace dcp::profile
