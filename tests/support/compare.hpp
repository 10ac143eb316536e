// How far results are from what they should be. An element that is NaN where a number was expected
// makes every error infinite; where NaN or an infinity was expected (rows that must not be
// written), exactly that is required.
#pragma once

#include "tests/support/tensors.hpp"

namespace dcp::test {

// Norm-wise: ||actual - expected|| / ||expected||; ||actual|| where nothing but zeros was expected.
double relative_error(const Values& actual, const Values& expected);
double relative_error(const ConstTensor& actual, const Values& expected);

// ||actual - expected||, to be compared with the size of the terms where a result is their small
// difference.
double error_norm(const ConstTensor& actual, const Values& expected);
double norm(const Values& values);

// Largest |actual - expected| over the largest |expected|; over 1 where that is zero.
double max_error(const Values& actual, const Values& expected);
double max_error(const ConstTensor& actual, const Values& expected);

}  // namespace dcp::test
