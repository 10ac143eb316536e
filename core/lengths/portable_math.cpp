#include "core/lengths/portable_math.hpp"

#include <bit>
#include <cstdint>

namespace dcp::lengths {

namespace {

constexpr double kLn2 = 0.693147180559945309417;
// The same in two parts: the first has 21 trailing zero bits, so its product with an exponent is
// exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr int kMantissaBits = 52;
constexpr std::int64_t kBias = 1023;
constexpr double kSqrt2 = 1.41421356237309504880;

}  // namespace

// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(z) = 2 (z + z^3/3 + z^5/5 + ...) with
// z = (m - 1)/(m + 1), |z| < 0.172: twelve terms are enough.
double portable_log(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    auto exponent = static_cast<std::int64_t>(bits >> kMantissaBits) - kBias;
    constexpr std::uint64_t kMantissa = (std::uint64_t{1} << kMantissaBits) - 1;
    constexpr std::uint64_t kOne = static_cast<std::uint64_t>(kBias) << kMantissaBits;
    auto m = std::bit_cast<double>((bits & kMantissa) | kOne);
    if (m > kSqrt2) {
        m /= 2;
        ++exponent;
    }
    const double z = (m - 1) / (m + 1);
    const double square = z * z;
    double sum = 0;
    for (int power = 25; power >= 1; power -= 2) {
        sum = sum * square + 1.0 / power;
    }
    return static_cast<double>(exponent) * kLn2 + 2 * z * sum;
}

// x = k ln 2 + r with |r| <= ln 2 / 2; exp r by its series, fourteen terms.
double portable_exp(double x) {
    const double halves = x / kLn2;
    const auto k = static_cast<std::int64_t>(halves < 0 ? halves - 0.5 : halves + 0.5);
    const auto whole = static_cast<double>(k);
    const double r = (x - whole * kLn2High) - whole * kLn2Low;
    double sum = 1;
    for (int term = 14; term >= 1; --term) {
        sum = 1 + sum * r / term;
    }
    const auto scale = static_cast<std::uint64_t>(k + kBias) << kMantissaBits;
    return sum * std::bit_cast<double>(scale);
}

}  // namespace dcp::lengths
