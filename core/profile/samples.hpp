// From repeated timings to one number. Nothing makes a repeat faster than it can be, and a machine
// that does other things makes many slower: those far above the fastest are left out, and the
// median of the rest counts.
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

// Rejected is what takes a quarter longer than the fastest. Empty: 0 seconds, error 1.
Estimate estimate(std::span<const double> seconds);

}  // namespace dcp::profile
