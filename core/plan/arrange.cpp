// Degrees and places of the gangs, looked at before any short sequence has a place.
//
// What is left of a rank's time is filled with single-rank micro-batches, and those come in whole
// numbers: a room of 3.1 full micro-batches needs four fixed costs. So gangs are judged by the time
// that all ranks together need for the short sequences in the rooms they leave.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/plan/construct.hpp"
#include "core/plan/fast_random.hpp"

namespace dcp::plan {

namespace {

constexpr double kPacking =
    0.985;                      // of a micro-batch's tokens, what packing whole sequences reaches
constexpr int kSteps = 1024;    // of the table of rooms
constexpr double kLongest = 3;  // rooms up to this many target times are in the table

// Tokens that single-rank micro-batches take in a room of time.
class Rooms {
public:
    Rooms(const Problem& problem,
          const MicroCosts& costs,
          const std::vector<std::int32_t>& short_ones,
          double target_seconds)
        : step_seconds_(kLongest * target_seconds / kSteps), tokens_(kSteps + 1, 0.0) {
        Load all;
        for (const std::int32_t sequence : short_ones) {
            all += load_of(problem.sequences[static_cast<std::size_t>(sequence)]);
        }
        total_tokens_ = static_cast<double>(all.tokens);
        for (const MicroCosts::Level& level : costs.levels(0)) {
            const double work_a_token =
                level.token_seconds + level.squared_seconds * all.squared_tokens / total_tokens_;
            const double most = kPacking * static_cast<double>(level.most_tokens);
            for (std::size_t i = 1; i < tokens_.size(); ++i) {
                const double room = step_seconds_ * static_cast<double>(i);
                // As many as can be full, or one more that is not.
                const double full = std::floor(room / (level.fixed_seconds + most * work_a_token));
                const double more = std::min(
                    (full + 1) * most, (room - (full + 1) * level.fixed_seconds) / work_a_token);
                tokens_[i] = std::max({tokens_[i], tokens_[i - 1], full * most, more});
            }
        }
    }

    // Least time in which the short sequences find room behind what the ranks already do.
    double least_time(const std::vector<double>& busy) const {
        double low = *std::max_element(busy.begin(), busy.end());
        if (tokens_within(busy, low) >= total_tokens_) {
            return low;
        }
        double high = low + step_seconds_ * kSteps;
        for (int halving = 0; halving < 20; ++halving) {
            const double middle = (low + high) / 2;
            (tokens_within(busy, middle) >= total_tokens_ ? high : low) = middle;
        }
        return high;
    }

private:
    double tokens_within(const std::vector<double>& busy, double makespan) const {
        double sum = 0;
        for (const double until : busy) {
            const double place = std::min<double>((makespan - until) / step_seconds_, kSteps - 1);
            if (place > 0) {
                const auto i = static_cast<std::size_t>(place);
                sum += tokens_[i] + (place - std::floor(place)) * (tokens_[i + 1] - tokens_[i]);
            }
        }
        return sum;
    }

    double step_seconds_;
    std::vector<double> tokens_;
    double total_tokens_ = 0;
};

}  // namespace

void Constructor::arrange(std::vector<Gang>& gangs,
                          const std::vector<std::int32_t>& short_ones,
                          double target_seconds,
                          const Habits& habits) const {
    if (gangs.empty()) {
        return;
    }
    const Rooms rooms(problem_, costs_, short_ones, target_seconds);
    const auto judge = [&](std::vector<Gang> trial) {
        sort_wide_first(trial);
        std::vector<double> busy(static_cast<std::size_t>(problem_.topology.ranks), 0.0);
        for (const Gang& gang : trial) {
            const std::vector<int> group =
                place_group(problem_.topology, busy, costs_.degree(gang.degree_index), gang.choice);
            double start = 0;
            for (const int rank : group) {
                start = std::max(start, busy[static_cast<std::size_t>(rank)]);
            }
            for (const int rank : group) {
                busy[static_cast<std::size_t>(rank)] = start + gang.seconds;
            }
        }
        return rooms.least_time(busy);
    };
    FastRandom random(static_cast<std::uint64_t>(gangs.size()));
    double best = judge(gangs);
    for (int i = 0; i < habits.arrangements; ++i) {
        std::vector<Gang> trial = gangs;
        for (std::size_t changes = 1 + random.below(2); changes > 0; --changes) {
            Gang& gang = trial[random.below(trial.size())];
            const std::size_t what = random.below(3);
            if (what == 0) {
                gang.choice = static_cast<int>(random.below(4));
                continue;
            }
            const std::size_t index = random.below(costs_.num_degrees());
            const double seconds = costs_.seconds(index, gang.load);
            if (seconds <= 1.2 * target_seconds && (!habits.nested_degrees || is_nested(index))) {
                gang.degree_index = index;
                gang.seconds = seconds;
            }
        }
        if (const double time = judge(trial); time <= best) {
            best = time;
            gangs = std::move(trial);
        }
    }
}

}  // namespace dcp::plan
