// From repeated timings to one number. A machine that does other things now and then makes some
// repeats far longer than all others: those are left out. What remains is averaged, not halved: a
// step of many layers takes the sum of theirs.
#pragma once

#include <span>
#include <vector>

namespace dcp::profile {

struct Estimate {
    double seconds = 0;
    double relative_error = 1;  // standard error of the mean over the mean; 1: cannot be told yet
    int num_rejected = 0;
};

// Of at least one value; of an even number the mean of the two in the middle.
double median(std::vector<double> values);

// Rejected is what lies above the median by more than 5 standard deviations (1.4826 x the median
// absolute deviation) and by more than a fifth of it. Empty: all 0 but the error.
Estimate estimate(std::span<const double> seconds);

}  // namespace dcp::profile
