// How much of the short sequences finds room behind the gangs of an arrangement, without placing
// any of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/micro_costs.hpp"

namespace dcp::plan {

// What single-rank micro-batches take in a room of time.
//
// A rank may be given sequences of more work a token than the mean, or of less, while another is
// given the opposite. So room is counted in a mixture of tokens and work, for several mixtures: the
// short sequences find room only if they do in every one of them.
class Rooms {
public:
    using Amounts = std::array<double, 3>;  // by mixture, in tokens

    static constexpr Amounts kWorkShares = {0.1, 0.5, 0.9};

    // `spread`: how far squares a token lie from their mean, in parts of it. The table has so many
    // steps and ends at a few times `target_seconds`.
    Rooms(const MicroCosts& costs,
          const Load& short_ones,
          double spread,
          double target_seconds,
          int steps);

    void add_to(Amounts& sums, double room_seconds) const {
        const double place = std::min(room_seconds * steps_a_second_, last_step_);
        const auto i = static_cast<std::size_t>(place);
        const double part = place - static_cast<double>(i);
        for (std::size_t k = 0; k < sums.size(); ++k) {
            sums[k] += amounts_[i][k] + part * (amounts_[i + 1][k] - amounts_[i][k]);
        }
    }
    // Of a rank that does nothing else.
    double seconds_a_token() const { return seconds_a_token_; }

private:
    // Micro-batches of one piece of the costs, with sequences of the mean work a token.
    struct Kind {
        double fixed_seconds;
        double most_tokens;
        double work;    // seconds a token
        double spread;  // what that may be more or less
        // When it is full of the lightest, and of the heaviest sequences; no kind before is sooner.
        double light_seconds;
        double heavy_seconds;
    };

    static std::vector<Kind> kinds_of(const MicroCosts& costs, double squares, double spread);
    // What one micro-batch takes in `seconds`.
    static Amounts held(const std::vector<Kind>& kinds, double seconds);
    void fill(const std::vector<Kind>& kinds);

    double steps_a_second_;
    double last_step_;
    std::vector<Amounts> amounts_;
    double seconds_a_token_ = 0;
};

// The same of one room, exactly, without a table: of sequences like these, the most tokens that a
// rank runs within `room` seconds, in micro-batches that are alike and hold at most `full` tokens.
double tokens_in_room(const MicroCosts& costs, double room, const Load& like, std::int64_t full);

// The short sequences as far as the judgement needs them, and how many micro-batches they need at
// least: sequences longer than half a micro-batch never share one, so tokens alone say too little
// (Martello and Toth's second bound for bin packing, by classes of length).
class Pool {
public:
    explicit Pool(std::int64_t most_tokens) : most_(static_cast<double>(most_tokens)) {}

    const Load& load() const { return load_; }
    void add(const Load& one, int times = 1);  // times -1 takes it out again

    // What the sequences take of micro-batches with room for `most_tokens`, in tokens.
    double packed_tokens() const;

private:
    static constexpr std::size_t kClasses = 64;

    double most_;
    Load load_;
    std::array<double, kClasses> counts_{};
    std::array<double, kClasses> sums_{};
};

}  // namespace dcp::plan
