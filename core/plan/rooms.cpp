#include "core/plan/rooms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp::plan {

namespace {

constexpr double kPacking =
    0.995;                      // of a micro-batch's tokens, what packing whole sequences reaches
constexpr double kLongest = 3;  // rooms up to this many target times are in the table
constexpr int kCounts = 3;      // of micro-batches that are tried in one room
constexpr int kWorse = 2;  // so many counts of micro-batches in turn that gain nothing are enough

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
    const std::vector<Kind> kinds =
        kinds_of(costs, short_ones.squared_tokens / static_cast<double>(short_ones.tokens), spread);
    seconds_a_token_ = std::numeric_limits<double>::infinity();
    for (const Kind& kind : kinds) {
        seconds_a_token_ =
            std::min(seconds_a_token_, kind.fixed_seconds / kind.most_tokens + kind.work);
    }
    fill(kinds);
}

std::vector<Rooms::Kind> Rooms::kinds_of(const MicroCosts& costs, double squares, double spread) {
    std::vector<Kind> kinds;
    double light = 0;
    double heavy = 0;
    for (const MicroCosts::Level& level : costs.levels(0)) {
        const double most = kPacking * static_cast<double>(level.most_tokens);
        const double work = level.token_seconds + level.squared_seconds * squares;
        const double varies = spread * level.squared_seconds * squares;
        light = std::max(light, level.fixed_seconds + most * (work - varies));
        heavy = std::max(heavy, level.fixed_seconds + most * (work + varies));
        kinds.push_back({.fixed_seconds = level.fixed_seconds,
                         .most_tokens = most,
                         .work = work,
                         .spread = varies,
                         .light_seconds = light,
                         .heavy_seconds = heavy});
    }
    return kinds;
}

// Seconds never fall as tokens grow, so the kinds before those that time just fills take less, and
// the kinds behind do not fit.
Rooms::Amounts Rooms::held(const std::vector<Kind>& kinds, double seconds) {
    Amounts most{};
    auto kind = std::partition_point(kinds.begin(), kinds.end() - 1, [seconds](const Kind& one) {
        return one.heavy_seconds < seconds;
    });
    for (; kind != kinds.end(); ++kind) {
        const double done = std::min(seconds - kind->fixed_seconds,
                                     kind->most_tokens * (kind->work + kind->spread));
        const double tokens = std::min(kind->most_tokens, done / (kind->work - kind->spread));
        for (std::size_t k = 0; k < most.size(); ++k) {
            most[k] = std::max(most[k],
                               (1 - kWorkShares[k]) * tokens + kWorkShares[k] * done / kind->work);
        }
        if (kind->light_seconds >= seconds) {
            break;
        }
    }
    return most;
}

// What is best for a room takes no fewer micro-batches than what is best for a shorter one.
void Rooms::fill(const std::vector<Kind>& kinds) {
    double first = 1;
    for (std::size_t i = 1; i < amounts_.size(); ++i) {
        const double room = static_cast<double>(i) / steps_a_second_;
        Amounts& best = amounts_[i];
        best = amounts_[i - 1];
        int worse = 0;
        for (double count = first; count * kinds.front().fixed_seconds < room && worse < kWorse;
             ++count) {
            const Amounts here = held(kinds, room / count);
            bool is_better = false;
            for (std::size_t k = 0; k < best.size(); ++k) {
                if (count * here[k] > best[k]) {
                    best[k] = count * here[k];
                    is_better = true;
                }
            }
            worse = is_better ? 0 : worse + 1;
            first = is_better ? count : first;
        }
    }
}

double tokens_in_room(const MicroCosts& costs, double room, const Load& like, std::int64_t full) {
    const double squares = like.squared_tokens / static_cast<double>(like.tokens);
    const auto seconds_a_token = [&](const MicroCosts::Level& level) {
        return level.token_seconds + level.squared_seconds * squares;
    };
    // In one micro-batch: from where the piece of the costs begins to where time or memory ends.
    const auto held = [&](double seconds) {
        double most = 0;
        double least = 0;
        for (const MicroCosts::Level& level : costs.levels(0)) {
            const auto end = static_cast<double>(std::min(level.most_tokens, full));
            const double tokens =
                std::min(end, (seconds - level.fixed_seconds) / seconds_a_token(level));
            most = tokens > least ? std::max(most, tokens) : most;
            least = end;
        }
        return most;
    };
    const MicroCosts::Level& deepest = *costs.level(0, full);
    const double full_seconds =
        deepest.fixed_seconds + static_cast<double>(full) * seconds_a_token(deepest);
    double most = 0;
    const double first = std::max(1.0, std::floor(room / full_seconds));
    for (int more = 0; more < kCounts; ++more) {
        const double count = first + more;
        most = std::max(most, count * held(room / count));
    }
    return most;
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
