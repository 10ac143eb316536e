#include "tests/support/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Differences {
    double sum_of_squares = 0;
    double expected_sum_of_squares = 0;
    double largest = 0;
    double largest_expected = 0;
};

Differences differences(const Values& actual, const Values& expected) {
    Differences found;
    bool comparable = actual.size() == expected.size();
    for (std::size_t index = 0; comparable && index < actual.size(); ++index) {
        const double want = expected[index];
        const double have = actual[index];
        if (!std::isfinite(want)) {
            comparable = std::isnan(want) ? std::isnan(have) : have == want;
            continue;
        }
        comparable = std::isfinite(have);
        const double difference = std::abs(have - want);
        found.sum_of_squares += difference * difference;
        found.expected_sum_of_squares += want * want;
        found.largest = std::max(found.largest, difference);
        found.largest_expected = std::max(found.largest_expected, std::abs(want));
    }
    if (!comparable) {
        found.sum_of_squares = kInfinity;
        found.largest = kInfinity;
    }
    return found;
}

}  // namespace

double relative_error(const Values& actual, const Values& expected) {
    const Differences found = differences(actual, expected);
    const double norm = std::sqrt(found.expected_sum_of_squares);
    return std::sqrt(found.sum_of_squares) / (norm > 0 ? norm : 1);
}

double relative_error(const ConstTensor& actual, const Values& expected) {
    return relative_error(values_of(actual), expected);
}

double error_norm(const ConstTensor& actual, const Values& expected) {
    return std::sqrt(differences(values_of(actual), expected).sum_of_squares);
}

double norm(const Values& values) {
    return std::sqrt(differences(values, values).expected_sum_of_squares);
}

double max_error(const Values& actual, const Values& expected) {
    const Differences found = differences(actual, expected);
    return found.largest / (found.largest_expected > 0 ? found.largest_expected : 1);
}

double max_error(const ConstTensor& actual, const Values& expected) {
    return max_error(values_of(actual), expected);
}

}  // namespace dcp::test
