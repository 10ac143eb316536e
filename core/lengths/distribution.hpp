// Distributions of sequence lengths: what a data set looks like to a planner, without the data.
//
// A draw is a pure function of (distribution, seed, position): it does not depend on the machine,
// on how many are drawn or in which order. Nothing of the C or C++ library's random numbers or
// mathematics is used (portable_math.hpp), and tables are interpolated in integers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rng.hpp"

namespace dcp::lengths {

// Of one sequence. In two dimensions (video) it has latent frames of so many tokens each.
struct Length {
    std::int64_t tokens = 0;  // 1 or more
    std::int64_t frames = 0;  // 0: one dimension

    std::int64_t tokens_per_frame() const { return frames > 0 ? tokens / frames : tokens; }
    bool operator==(const Length&) const = default;
};

// As a line of a lengths file: "TOKENS" or "FRAMESxTOKENS_PER_FRAME".
std::string to_string(const Length& length);

// Random words for one draw, one after the other.
class Words {
public:
    Words(std::uint64_t seed, std::string_view purpose, std::uint64_t thing)
        : rng_(seed, purpose, thing) {}
    std::uint64_t word() { return rng_.word(next_++); }
    double uniform() { return rng_.uniform(next_++); }  // in (0, 1)
    double normal();                                    // mean 0, variance 1

private:
    CounterRng rng_;
    std::uint64_t next_ = 0;
};

class Distribution {
public:
    virtual ~Distribution() = default;

    virtual bool is_video() const = 0;  // every length has frames, or none has
    virtual Length longest() const = 0;
    // Of the sequence at `position` (0, 1, 2, ...) of the run; only a drift depends on it.
    virtual Length draw(Words& words, std::int64_t position) const = 0;

    Length at(std::uint64_t seed, std::int64_t position) const {
        Words words(seed, "sequence length", static_cast<std::uint64_t>(position));
        return draw(words, position);
    }
};

using DistributionPtr = std::shared_ptr<const Distribution>;

// NAME or NAME:key=value,key=value. Mixtures: `A@0.7+B@0.3`, weights by number of sequences, any
// scale. A drift: `A~20000~B` goes from A to B during the first 20,000 sequences. ConfigError names
// the part that is wrong and what is known.
DistributionPtr parse_distribution(std::string_view text);

// For help texts and docs: name with its keys and their defaults, and what it is.
struct DistributionInfo {
    std::string name;
    std::string keys;  // "alpha=3,min=1024"; empty: none
    std::string meaning;
};
std::vector<DistributionInfo> known_distributions();

}  // namespace dcp::lengths
