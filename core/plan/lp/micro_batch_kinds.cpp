#include "core/plan/lp/micro_batch_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp::plan::lp {

namespace {

// A bound must hold for every plan that validate() accepts, and that allows 1e-9.
constexpr double kSlack = 1 + 4e-9;
constexpr std::size_t kCuts = 3;
// Times are no whole numbers: one that is exactly half may come out a little above.
constexpr double kBelow = 1 - 1e-9;

// Of `most` things that add up to at most 1, the number above 1 / (q + 1) is at most q.
double whole_share(double share, std::size_t q) {
    const auto parts = static_cast<double>(q);
    return std::floor((parts + 1) * share) / parts;
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
    shares.parts[0] = size.tokens / layout.most_tokens;
    shares.parts[1] = by_time;
    for (std::size_t q = 1; q <= kCuts; ++q) {
        // Tokens are whole numbers: half a token more than fits is still too much.
        shares.parts[1 + q] = whole_share(size.tokens / (layout.most_tokens + 0.5), q);
        shares.parts[1 + kCuts + q] = whole_share(by_time * kBelow, q);
    }
    return shares;
}

double Kinds::rank_seconds(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    return layout.degree * layout.work(size);
}

}  // namespace dcp::plan::lp
