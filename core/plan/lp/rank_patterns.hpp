// How a rank can spend an iteration, as far as the LP bound tells ranks apart.
//
// A sequence is on a rank once at most. So ranks that share the longest sequence of the batch are
// looked at apart from those that do not: behind it they have so much time left, for a whole number
// of other micro-batches, and none of these has that sequence. Prices and what they are made of may
// differ from pattern to pattern; every rank of a plan is of one pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/price_table.hpp"

namespace dcp::plan::lp {

// A bound must hold for every plan that validate() accepts, and that allows 1e-9.
inline constexpr double kSlack = 1 + 4e-9;

struct Size {  // of a sequence
    double tokens = 0;
    double squared_tokens = 0;
    auto operator<=>(const Size&) const = default;
};

inline Size size_at(const Lengths& lengths, std::size_t i) {
    return {lengths.tokens[i], lengths.squared_tokens[i]};
}

// A degree with a depth, and one line of its cost where that has several pieces; whatever n is.
struct Layout {
    double degree = 1;
    double extra_seconds = 0;  // beyond the least fixed time of all
    double token_seconds = 0;
    double squared_seconds = 0;
    double most_tokens = 0;  // of the group, whole

    double work(const Size& size) const {
        return token_seconds * size.tokens + squared_seconds * size.squared_tokens;
    }
};

// Of the ranks with this anchor, or of those without any: how many other micro-batches they run.
struct Pattern {
    struct Anchor {
        Size size;
        // Only layouts in which the anchor alone lasts so long: at least, and less than.
        double from_seconds = 0;
        double to_seconds = std::numeric_limits<double>::infinity();
        double least_seconds = 0;  // what it lasts in the quickest of these
    };

    std::optional<Anchor> anchor;
    int others = 0;
    bool stands_for_fewer = false;
    bool stands_for_more = false;
    // No other sequence of the rank's is as great as this, or greater.
    std::optional<Size> limit;

    double least_seconds() const { return anchor ? anchor->least_seconds : 0; }
};

// What a micro-batch is to a rank: the one with the anchor, or one of the others.
enum Role : std::uint8_t { kAnchor = 0, kOther = 1 };
inline constexpr std::size_t kRoles = 2;

// A pattern, and a role in it.
inline std::size_t place_of(std::size_t pattern, Role role) {
    return kRoles * pattern + role;
}

// Ends of what a rank of a pattern can do within T, as (others, seconds of the anchor's
// micro-batch): what it earns is linear in both, so that these decide.
std::vector<std::pair<double, double>> corners(const Pattern& pattern,
                                               double fixed_seconds,
                                               double makespan);

// What patterns are made for.
struct Ranks {
    double fixed_seconds = 0;  // least of a micro-batch
    double makespan = 0;
    double mean_count = 1;  // micro-batches that the tokens of the batch ask of a rank
};

// Patterns that cover every rank of every plan that lasts no longer: with each of the `anchors`
// greatest sizes as the greatest on the rank, and with none of them.
std::vector<Pattern> rank_patterns(const Ranks& ranks,
                                   const std::vector<Layout>& layouts,
                                   const Lengths& lengths,
                                   std::size_t anchors);

}  // namespace dcp::plan::lp
