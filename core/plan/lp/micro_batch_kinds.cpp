#include "core/plan/lp/micro_batch_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp::plan::lp {

namespace {

// A bound must hold for every plan that validate() accepts, and that allows 1e-9.
constexpr double kSlack = 1 + 4e-9;
// Times are no whole numbers: one that is exactly half may come out a little above.
constexpr double kBelow = 1 - 1e-9;

// All the shares of one way, from `first` on. `share` is exact; `below` is a little less, such that
// shares that fill the micro-batch exactly add up to less than 1: what floors and thresholds need.
void add_shares(double share, double below, std::size_t first, Shares& shares) {
    shares.parts[first] = share;
    for (std::size_t q = 1; q <= Shares::kCuts; ++q) {
        const auto cut = static_cast<double>(q);
        shares.parts[first + q] = std::floor((cut + 1) * below) / cut;
    }
    for (std::size_t i = 1; i <= Shares::kThresholds; ++i) {
        const double threshold = 0.5 * static_cast<double>(i) / Shares::kThresholds;
        shares.parts[first + Shares::kCuts + i] = below > 1 - threshold ? 1
                                                  : below < threshold   ? 0
                                                                        : share;
    }
}

// Whatever the price rule of `cheap` allows a micro-batch of `dear`, that of `dear` does.
bool makes_needless(const Layout& cheap, const Layout& dear, double longest_seconds) {
    return cheap.extra_seconds <= dear.extra_seconds && cheap.token_seconds <= dear.token_seconds &&
           cheap.squared_seconds <= dear.squared_seconds &&
           (cheap.most_tokens >= dear.most_tokens ||
            cheap.token_seconds * cheap.most_tokens >= longest_seconds * kSlack);
}

}  // namespace

double least_fixed_seconds(const Problem& problem) {
    double least = std::numeric_limits<double>::infinity();
    for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
        for (const int degree : problem.degrees) {
            for (const CostPiece& piece : bounding_pieces(*problem.cost, degree, depth)) {
                least = std::min(least, piece.line.fixed_seconds);
            }
        }
    }
    return least;
}

std::vector<Layout> layouts_of(const Problem& problem, double longest_seconds) {
    // Ranks faster than 1 shorten what is computed; the fastest sets the pace of the bound.
    double pace = 1;
    for (const double speed : problem.topology.speeds) {
        pace = std::max(pace, speed);
    }
    const double fixed = least_fixed_seconds(problem);
    std::vector<Layout> layouts;
    for (const int degree : problem.degrees) {
        std::vector<Layout> here;
        for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
            double before = 0;  // tokens of the pieces before
            for (const CostPiece& piece : bounding_pieces(*problem.cost, degree, depth)) {
                const LinearCost& line = piece.line;
                const double memory = problem.memory_budget_bytes * kSlack - line.static_bytes;
                const auto most_of_piece = static_cast<double>(piece.most_tokens);
                const double most =
                    line.token_bytes > 0
                        ? std::min(most_of_piece, std::floor(memory / line.token_bytes))
                        : most_of_piece;
                if (memory < 0 || most < 1 || most <= before) {
                    continue;
                }
                before = most_of_piece;
                const Layout layout{.degree = static_cast<double>(degree),
                                    .extra_seconds = line.fixed_seconds - fixed,
                                    .token_seconds = line.token_seconds / pace,
                                    .squared_seconds = line.squared_token_seconds / pace,
                                    .most_tokens = most};
                if (std::none_of(here.begin(), here.end(), [&](const Layout& other) {
                        return makes_needless(other, layout, longest_seconds);
                    })) {
                    here.push_back(layout);
                }
            }
        }
        layouts.insert(layouts.end(), here.begin(), here.end());
    }
    return layouts;
}

Kinds::Kinds(const std::vector<Layout>& layouts,
             double fixed_seconds,
             const std::vector<Slot>& slots,
             double makespan)
    : layouts_(layouts) {
    kinds_.reserve(layouts.size() * slots.size());
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        // Where a slot stands for fewer micro-batches too, one alone may last longest.
        const int count = slots[slot].stands_for_fewer ? 1 : slots[slot].count;
        for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
            kinds_.push_back({.layout = layout,
                              .slot = slot,
                              .room_seconds = makespan * kSlack - count * fixed_seconds -
                                              layouts[layout].extra_seconds});
        }
    }
}

bool Kinds::holds(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    return size.tokens <= layout.most_tokens && layout.work(size) <= kinds_[index].room_seconds;
}

Shares Kinds::shares(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    const double room = kinds_[index].room_seconds;
    const double by_time = room > 0 ? layout.work(size) / room : 0;
    Shares shares;
    // Tokens are whole numbers: half a token more than fits is still too much.
    add_shares(size.tokens / layout.most_tokens, size.tokens / (layout.most_tokens + 0.5), 0,
               shares);
    add_shares(by_time, by_time * kBelow, Shares::kCount / 2, shares);
    return shares;
}

double Kinds::rank_seconds(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    return layout.degree * layout.work(size);
}

}  // namespace dcp::plan::lp
