// Kinds of micro-batches, for the LP bound: on p ranks at recompute depth k, on ranks that run n
// micro-batches in time T. What a sequence takes of one, and which sequences it can hold.
//
// A micro-batch of sequences of l tokens and s squared tokens lasts, on each of its p ranks, at
// least
//   fixed + extra + sum of work(l, s),   work(l, s) = token_seconds l + squared_seconds s,
// where `fixed` is the least of all kinds. Since each of the n lasts at least `fixed`, none lasts
// more than T - (n - 1) fixed.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/plan/lp/rank_patterns.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan::lp {

// Some parts of a micro-batch that a sequence takes. Over the sequences of any micro-batch of the
// kind, each of them adds up to at most 1.
struct Shares {
    static constexpr std::size_t kCuts = 3;
    static constexpr std::size_t kThresholds = 8;
    static constexpr std::size_t kCount = 2 * (1 + kCuts + kThresholds);

    // First by tokens, then by time. Each way: what it takes as it is; then whole numbers, "at most
    // one sequence has more than half", "at most two have more than a third", "three, a quarter";
    // then, for thresholds e, what it takes, but 1 above 1 - e and 0 below e: beside a sequence
    // that leaves less than e there is no other of e or more.
    std::array<double, kCount> parts{};
};

struct Kind {
    std::size_t layout = 0;
    std::size_t place = 0;    // of which pattern, in which role
    double room_seconds = 0;  // for work; below 0: none
};

// Everything that depends on T but not on prices.
class Kinds {
public:
    Kinds(const std::vector<Layout>& layouts,
          double fixed_seconds,
          const std::vector<Pattern>& patterns,
          double makespan);

    std::size_t size() const { return kinds_.size(); }
    const Kind& kind(std::size_t index) const { return kinds_[index]; }
    const Layout& layout(std::size_t index) const { return layouts_[kinds_[index].layout]; }
    // The kind of a layout at a place.
    std::size_t find(std::size_t place, std::size_t layout) const {
        return place * layouts_.size() + layout;
    }

    bool holds(std::size_t index, const Size& size) const;
    Shares shares(std::size_t index, const Size& size) const;  // of a sequence that it holds
    double rank_seconds(std::size_t index, const Size& size) const;

private:
    double room_seconds(const Pattern& pattern, Role role, const Layout& layout) const;
    // Of the anchor that is in every micro-batch of the kind; nullptr: any may be in it.
    const Size* anchor(std::size_t index) const;

    const std::vector<Layout>& layouts_;
    const std::vector<Pattern>& patterns_;
    double fixed_seconds_;
    double makespan_;
    std::vector<Kind> kinds_;
};

// All degrees and depths of a problem that hold at least one token, without those that another of
// the same degree makes needless: one that is nowhere dearer, and holds as many tokens or whatever
// `longest_seconds` leave time for.
std::vector<Layout> layouts_of(const Problem& problem, double longest_seconds);

// The least fixed time of a micro-batch.
double least_fixed_seconds(const Problem& problem);

}  // namespace dcp::plan::lp
