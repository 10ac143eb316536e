// From repeated timings to one number. A machine that does other things makes some of them slower,
// or what they are compared with: those far from where most are count for nothing, and the median
// of the rest does.
#pragma once

#include <span>
#include <vector>

namespace dcp::profile {

struct Estimate {
    double seconds = 0;
    double relative_error = 1;  // standard error of the median over it; 1: cannot be told yet
    int num_kept = 0;
    int num_rejected = 0;
};

// Of at least one value; of an even number the mean of the two in the middle.
double median(std::vector<double> values);

// Rejected is what is a quarter above or below where most are. Empty: 0 seconds, error 1.
Estimate estimate(std::span<const double> seconds);

}  // namespace dcp::profile
