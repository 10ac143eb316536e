// Numbers for searches: SplitMix64 (Steele, Lea and Flood 2014), a few cycles each. CounterRng is
// for numbers that must not depend on the order they are asked for; in a search the order is the
// search.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dcp::plan {

class FastRandom {
public:
    explicit FastRandom(std::uint64_t seed) : state_(seed) {}

    std::uint64_t word() {
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }
    std::size_t below(std::size_t count) {  // count up to 2^32
        return static_cast<std::size_t>(((word() >> 32) * count) >> 32);
    }
    double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }  // in [0, 1)

private:
    std::uint64_t state_;
};

}  // namespace dcp::plan
