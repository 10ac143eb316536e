#include "core/lengths/laws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/lengths/portable_math.hpp"

namespace dcp::lengths {

namespace {

Length longer(const Length& a, const Length& b) {
    return a.tokens < b.tokens ? b : a;
}

}  // namespace

std::string to_string(const Length& length) {
    return length.frames == 0
               ? std::to_string(length.tokens)
               : std::to_string(length.frames) + "x" + std::to_string(length.tokens_per_frame());
}

// Marsaglia's polar method: a point in the unit circle, no sine or cosine. sqrt is exact in IEEE.
double Words::normal() {
    while (true) {
        const double x = 2 * uniform() - 1;
        const double y = 2 * uniform() - 1;
        const double square = x * x + y * y;
        if (square < 1 && square > std::numeric_limits<double>::min()) {
            return x * std::sqrt(-2 * portable_log(square) / square);
        }
    }
}

Classes::Classes(const std::vector<Class>& classes) {
    double total = 0;
    for (const Class& one : classes) {
        total += one.weight;
    }
    double sum = 0;
    for (const Class& one : classes) {
        sum += one.weight;
        lengths_.push_back(one.length);
        ends_.push_back(static_cast<std::uint64_t>(sum / total * 0x1p62) << 2);
    }
    ends_.back() = std::numeric_limits<std::uint64_t>::max();
}

Length Classes::longest() const {
    return *std::max_element(lengths_.begin(), lengths_.end(),
                             [](const Length& a, const Length& b) { return a.tokens < b.tokens; });
}

Length Classes::draw(Words& words, std::int64_t /*position*/) const {
    const auto end = std::lower_bound(ends_.begin(), ends_.end(), words.word());
    return lengths_[static_cast<std::size_t>(std::distance(ends_.begin(), end))];
}

Length QuantileTable::draw(Words& words, std::int64_t /*position*/) const {
    const auto share = static_cast<std::uint32_t>(words.word() >> 32);
    // The first knot is at share 0.
    const auto above =
        std::upper_bound(knots_.begin() + 1, knots_.end() - 1, share,
                         [](std::uint32_t value, const Knot& knot) { return value < knot.below; });
    const Knot& low = *(above - 1);
    const std::int64_t width = std::int64_t{above->below} - low.below;
    const std::int64_t rise = std::int64_t{above->tokens} - low.tokens;
    const std::int64_t tokens =
        low.tokens + (rise * (std::int64_t{share} - low.below) + width / 2) / width;
    return {.tokens = limits_.clip(tokens)};
}

// The inverse of the share of sequences below a length; alpha = 1 is uniform in the logarithm.
Length PowerLaw::draw(Words& words, std::int64_t /*position*/) const {
    const double share = words.uniform();
    const auto min = static_cast<double>(limits_.min);
    const double log_ratio = portable_log(static_cast<double>(limits_.max + 1) / min);
    const double slope = alpha_ - 1;
    const bool is_uniform_in_log = slope < 1e-9 && slope > -1e-9;
    const double log_tokens =
        is_uniform_in_log
            ? share * log_ratio
            : -portable_log(1 - share * (1 - portable_exp(-slope * log_ratio))) / slope;
    return {.tokens = limits_.clip(static_cast<std::int64_t>(min * portable_exp(log_tokens)))};
}

LogNormal::LogNormal(double mean, double sigma, Limits limits)
    : log_median_(portable_log(mean) - sigma * sigma / 2), sigma_(sigma), limits_(limits) {}

Length LogNormal::draw(Words& words, std::int64_t /*position*/) const {
    const double logarithm = log_median_ + sigma_ * words.normal();
    constexpr double kLargest = 40;  // e^40 tokens are above every limit
    return {.tokens = limits_.clip(static_cast<std::int64_t>(
                portable_exp(std::clamp(logarithm, -kLargest, kLargest))))};
}

Length Mixture::longest() const {
    Length longest;
    for (const Part& part : parts_) {
        longest = longer(longest, part.distribution->longest());
    }
    return longest;
}

Length Mixture::draw(Words& words, std::int64_t position) const {
    double total = 0;
    for (const Part& part : parts_) {
        total += part.weight;
    }
    double left = words.uniform() * total;
    const Part* chosen = &parts_.back();
    for (const Part& part : parts_) {
        if (left < part.weight) {
            chosen = &part;
            break;
        }
        left -= part.weight;
    }
    return chosen->distribution->draw(words, position);
}

Length Drift::longest() const {
    return longer(from_->longest(), to_->longest());
}

Length Drift::draw(Words& words, std::int64_t position) const {
    const double progress = static_cast<double>(position) / static_cast<double>(sequences_);
    const Distribution& chosen = words.uniform() < progress ? *to_ : *from_;
    return chosen.draw(words, position);
}

}  // namespace dcp::lengths
