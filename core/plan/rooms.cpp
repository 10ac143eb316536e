#include "core/plan/rooms.hpp"

#include <algorithm>
#include <cmath>

namespace dcp::plan {

namespace {

constexpr double kPacking =
    0.995;                      // of a micro-batch's tokens, what packing whole sequences reaches
constexpr double kLongest = 3;  // rooms up to this many target times are in the table
constexpr int kMostLevels = 6;  // recompute depths that are looked at

}  // namespace

Rooms::Rooms(const MicroCosts& costs,
             const Load& short_ones,
             double spread,
             double target_seconds,
             int steps)
    : steps_a_second_(steps / (kLongest * target_seconds)),
      last_step_(steps - 1),
      amounts_(static_cast<std::size_t>(steps) + 1, Amounts{}) {
    if (short_ones.tokens == 0) {
        return;
    }
    const double squares_a_token =
        short_ones.squared_tokens / static_cast<double>(short_ones.tokens);
    const std::vector<MicroCosts::Level>& levels = costs.levels(0);
    const std::size_t stride = (levels.size() + kMostLevels - 1) / kMostLevels;
    // The deepest is always one of them, for it holds most.
    for (std::size_t i = (levels.size() - 1) % stride; i < levels.size(); i += stride) {
        const double squares = levels[i].squared_seconds * squares_a_token;
        add(levels[i], levels[i].token_seconds + squares, spread * squares);
    }
}

void Rooms::add(const MicroCosts::Level& level, double work, double spread) {
    const double fixed = level.fixed_seconds;
    const double most = kPacking * static_cast<double>(level.most_tokens);
    const double full_seconds = fixed + most * work;
    if (seconds_a_token_ == 0 || full_seconds / most < seconds_a_token_) {
        seconds_a_token_ = full_seconds / most;
    }
    for (std::size_t i = 1; i < amounts_.size(); ++i) {
        const double room = static_cast<double>(i) / steps_a_second_;
        Amounts& best = amounts_[i];
        for (std::size_t k = 0; k < best.size(); ++k) {
            best[k] = std::max(best[k], amounts_[i - 1][k]);
        }
        const double first = std::max(1.0, std::floor(room / (full_seconds + most * spread)));
        for (double count = first; count * fixed < room && count < first + 3; ++count) {
            const double done = std::min(room - count * fixed, count * most * (work + spread));
            const double tokens = std::min(count * most, done / (work - spread));
            for (std::size_t k = 0; k < best.size(); ++k) {
                best[k] =
                    std::max(best[k], (1 - kWorkShares[k]) * tokens + kWorkShares[k] * done / work);
            }
        }
    }
}

void Pool::add(const Load& one, int times) {
    load_.tokens += times * one.tokens;
    load_.squared_tokens += times * one.squared_tokens;
    const std::size_t c = std::min(
        kClasses - 1, static_cast<std::size_t>(static_cast<double>(one.tokens) / most_ * kClasses));
    counts_[c] += times;
    sums_[c] += static_cast<double>(times * one.tokens);
}

double Pool::packed_tokens() const {
    constexpr std::size_t kHalf = kClasses / 2;
    double large = 0;  // sequences that share with none of class `low` or above
    double middle = 0;
    double middle_sum = 0;
    double small_sum = 0;
    for (std::size_t c = kHalf; c < kClasses; ++c) {
        middle += counts_[c];
        middle_sum += sums_[c];
    }
    for (std::size_t c = 0; c < kHalf; ++c) {
        small_sum += sums_[c];
    }
    double least = 0;
    for (std::size_t low = 0; low < kHalf; ++low) {
        const double free = middle * most_ - middle_sum;
        least = std::max(least, large + middle + std::max(0.0, small_sum - free) / most_);
        small_sum -= sums_[low];
        const std::size_t mirror = kClasses - 1 - low;
        large += counts_[mirror];
        middle -= counts_[mirror];
        middle_sum -= sums_[mirror];
    }
    return std::max(static_cast<double>(load_.tokens), least * most_);
}

}  // namespace dcp::plan
