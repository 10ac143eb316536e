// Kinds of micro-batches, for the LP bound: on p ranks at recompute depth k, on ranks that run n
// micro-batches in time T. What a sequence takes of one, and which sequences it can hold.
//
// A micro-batch of sequences with lengths l lasts, on each of its p ranks,
//   fixed + extra + sum of work(l),   work(l) = token_seconds l + squared_seconds l^2,
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

// A degree with a depth, whatever n is.
struct Layout {
    double degree = 1;
    int depth = 0;
    double extra_seconds = 0;
    double token_seconds = 0;
    double squared_seconds = 0;
    double most_tokens = 0;  // of the group, whole

    double work(double tokens) const {
        return token_seconds * tokens + squared_seconds * tokens * tokens;
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

    bool holds(std::size_t index, double tokens) const;
    Shares shares(std::size_t index, double tokens) const;  // of a sequence that it holds
    double rank_seconds(std::size_t index, double tokens) const;

private:
    const std::vector<Layout>& layouts_;
    std::vector<Kind> kinds_;
};

// All degrees and depths of a problem that hold at least one token, without those that a shallower
// depth of the same degree beats for every micro-batch of at most `longest_seconds`.
std::vector<Layout> layouts_of(const Problem& problem, double longest_seconds);

// The least fixed time of a micro-batch.
double least_fixed_seconds(const Problem& problem);

}  // namespace dcp::plan::lp
