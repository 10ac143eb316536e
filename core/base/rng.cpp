#include "core/base/rng.hpp"

#include <cmath>
#include <numbers>

namespace dcp {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
    // Multipliers and Weyl increments of the paper's table for 4x32.
    constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
    constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
    constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = kMultiplier0 * counter[0];
        const std::uint64_t product1 = kMultiplier1 * counter[2];
        counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(product1),
                   static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(product0)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

std::uint64_t hash_name(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char letter : name) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
    return hash;
}

CounterRng::CounterRng(std::uint64_t seed, std::string_view purpose, std::uint64_t thing) {
    // The purpose and the thing select a stream, the seed is the key; one more Philox call mixes
    // stream words that are close together.
    const std::uint64_t label = hash_name(purpose);
    const auto mixed =
        philox({static_cast<std::uint32_t>(thing), static_cast<std::uint32_t>(thing >> 32),
                static_cast<std::uint32_t>(label), static_cast<std::uint32_t>(label >> 32)},
               {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    key_ = {mixed[0], mixed[1]};
    stream_ = (static_cast<std::uint64_t>(mixed[2]) << 32) | mixed[3];
}

std::array<std::uint32_t, 4> CounterRng::block(std::uint64_t element) const {
    return philox({static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32),
                   static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                  key_);
}

std::uint64_t CounterRng::word(std::uint64_t element) const {
    const auto words = block(element);
    return (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
}

double CounterRng::uniform(std::uint64_t element) const {
    return (static_cast<double>(word(element) >> 11) + 0.5) * 0x1p-53;
}

double CounterRng::normal(std::uint64_t element) const {
    const auto words = block(element);
    const double u =
        (static_cast<double>(((static_cast<std::uint64_t>(words[0]) << 32) | words[1]) >> 11) +
         0.5) *
        0x1p-53;
    const double v =
        (static_cast<double>(((static_cast<std::uint64_t>(words[2]) << 32) | words[3]) >> 11) +
         0.5) *
        0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), half_bits_(1), rng_(seed, "permutation", epoch) {
    while (half_bits_ < 31 && (std::int64_t{1} << (2 * half_bits_)) < size) {
        ++half_bits_;
    }
}

std::int64_t Permutation::operator()(std::int64_t position) const {
    constexpr std::uint64_t kRounds =
        6;  // four would already pass for pseudo-random (Luby & Rackoff); six cost nothing here
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    auto value = static_cast<std::uint64_t>(position);
    do {
        std::uint64_t left = value >> half_bits_;
        std::uint64_t right = value & mask;
        for (std::uint64_t round = 0; round < kRounds; ++round) {
            const std::uint64_t next = left ^ (rng_.word((round << 32) | right) & mask);
            left = right;
            right = next;
        }
        value = (left << half_bits_) | right;
    } while (value >= static_cast<std::uint64_t>(size_));
    return static_cast<std::int64_t>(value);
}

}  // namespace dcp
