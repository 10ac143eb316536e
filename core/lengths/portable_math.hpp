// exp and log that have the same bits on every machine.
//
// The C library's differ in the last bit between versions and processors, and a length is a rounded
// number: one bit can turn 511 tokens into 512. These use only + - * / of IEEE doubles, which are
// exact to the last bit everywhere; the layer is compiled without fused multiply-add (see
// CMakeLists.txt), the only thing that could still change them.
#pragma once

namespace dcp::lengths {

// Relative error below 1e-15. `x` finite and above 0, not subnormal.
double portable_log(double x);

// Relative error below 1e-15. `x` in [-700, 700].
double portable_exp(double x);

}  // namespace dcp::lengths
