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

#include "core/plan/price_table.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan::lp {

// Some parts of a micro-batch that a sequence takes. Over the sequences of any micro-batch of the
// kind, each of them adds up to at most 1.
struct Shares {
    static constexpr std::size_t kCount = 8;

    // Of its tokens; of its time; then whole numbers, first by tokens, then by time: "at most one
    // sequence has more than half", "at most two have more than a third", "three, a quarter".
    std::array<double, kCount> parts{};
};

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
    double extra_seconds = 0;
    double token_seconds = 0;
    double squared_seconds = 0;
    double most_tokens = 0;  // of the group, whole

    double work(const Size& size) const {
        return token_seconds * size.tokens + squared_seconds * size.squared_tokens;
    }
};

struct Kind {
    std::size_t layout = 0;
    std::size_t slot = 0;
    double room_seconds = 0;  // for work; below 0: none
};

// Everything that depends on T but not on prices.
class Kinds {
public:
    Kinds(const std::vector<Layout>& layouts,
          double fixed_seconds,
          const std::vector<Slot>& slots,
          double makespan);

    std::size_t size() const { return kinds_.size(); }
    const Kind& kind(std::size_t index) const { return kinds_[index]; }
    const Layout& layout(std::size_t index) const { return layouts_[kinds_[index].layout]; }
    // The kind of a layout in a slot.
    std::size_t find(std::size_t slot, std::size_t layout) const {
        return slot * layouts_.size() + layout;
    }

    bool holds(std::size_t index, const Size& size) const;
    Shares shares(std::size_t index, const Size& size) const;  // of a sequence that it holds
    double rank_seconds(std::size_t index, const Size& size) const;

private:
    const std::vector<Layout>& layouts_;
    std::vector<Kind> kinds_;
};

// All degrees and depths of a problem that hold at least one token, without those that another of
// the same degree makes needless: one that is nowhere dearer, and holds as many tokens or whatever
// `longest_seconds` leave time for.
std::vector<Layout> layouts_of(const Problem& problem, double longest_seconds);

// The least fixed time of a micro-batch.
double least_fixed_seconds(const Problem& problem);

}  // namespace dcp::plan::lp
