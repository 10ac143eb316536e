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

namespace {

// The middle one of those in the shortest interval that holds half of the samples: where most of
// them are, however far off the others may be.
double centre_of_most(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    const std::size_t half = (seconds.size() + 1) / 2;
    std::size_t best = 0;
    for (std::size_t begin = 1; begin + half <= seconds.size(); ++begin) {
        if (seconds[begin + half - 1] - seconds[begin] < seconds[best + half - 1] - seconds[best]) {
            best = begin;
        }
    }
    return seconds[best + (half - 1) / 2];
}

}  // namespace

Estimate estimate(std::span<const double> seconds) {
    constexpr double kMost = 1.25;              // times the centre, or a part of it
    constexpr double kMedianOverMean = 1.2533;  // sqrt(pi / 2): standard errors, normal samples
    if (seconds.empty()) {
        return {};
    }
    const double centre = centre_of_most({seconds.begin(), seconds.end()});
    std::vector<double> kept;
    double sum = 0;
    double squares = 0;
    for (const double each : seconds) {
        if (each <= kMost * centre && each * kMost >= centre) {
            kept.push_back(each);
            sum += each;
            squares += each * each;
        }
    }
    const auto count = static_cast<double>(kept.size());
    Estimate result{.seconds = median(kept),
                    .num_kept = static_cast<int>(kept.size()),
                    .num_rejected = static_cast<int>(seconds.size() - kept.size())};
    if (kept.size() > 1 && result.seconds > 0) {
        const double variance = std::max(0.0, squares - sum * sum / count) / (count - 1);
        result.relative_error = kMedianOverMean * std::sqrt(variance / count) / result.seconds;
    }
    return result;
}

}  // namespace dcp::profile
