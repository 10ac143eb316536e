// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC 2011).
//
// A number is a pure function of a key and a counter, so who draws it, when, and on how many ranks
// cannot matter (design section 5). There is no state to save. Keys are made from words that say
// what the number is for: (seed, tensor name, element), (seed, sample, epoch, ...).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dcp {

// Ten rounds over a 128-bit counter; the same words on every machine.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

// 64-bit FNV-1a: a stable number for a name.
std::uint64_t hash_name(std::string_view name);

class CounterRng {
public:
    // The stream of numbers for one purpose ("init", "epoch order", ...) and one thing (a hashed
    // name, a sample id).
    CounterRng(std::uint64_t seed, std::string_view purpose, std::uint64_t thing);

    std::uint64_t word(std::uint64_t element) const;  // 64 random bits
    double uniform(std::uint64_t element) const;      // in (0, 1), 53 bits
    double normal(
        std::uint64_t element) const;  // mean 0, variance 1 (Box-Muller on one Philox block)

private:
    std::array<std::uint32_t, 4> block(std::uint64_t element) const;

    std::array<std::uint32_t, 2> key_;
    std::uint64_t stream_;
};

// A random permutation of [0, size) that needs no memory: position -> value, a bijection for every
// key. A Feistel network over the smallest even number of bits that holds `size`, walked until the
// value is inside (Black & Rogaway 2002, "cycle walking").
class Permutation {
public:
    Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch);  // size >= 0
    std::int64_t size() const { return size_; }
    std::int64_t operator()(std::int64_t position) const;  // 0 <= position < size

private:
    std::int64_t size_;
    int half_bits_;
    CounterRng rng_;
};

}  // namespace dcp
