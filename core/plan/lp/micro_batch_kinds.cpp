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

bool beats(const Layout& shallow, const Layout& deep) {
    return shallow.extra_seconds <= deep.extra_seconds &&
           shallow.token_seconds <= deep.token_seconds &&
           shallow.squared_seconds <= deep.squared_seconds;
}

}  // namespace

double least_fixed_seconds(const Problem& problem) {
    double least = std::numeric_limits<double>::infinity();
    for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
        for (const int degree : problem.degrees) {
            least = std::min(least, problem.cost->linear(degree, depth).fixed_seconds);
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
        const Layout* full = nullptr;  // the first depth that time fills before memory does
        std::vector<Layout> depths;
        depths.reserve(static_cast<std::size_t>(problem.max_recompute_layers()) + 1);
        for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
            const LinearCost line = problem.cost->linear(degree, depth);
            const double memory = problem.memory_budget_bytes * kSlack - line.static_bytes;
            const double most = line.token_bytes > 0 ? std::floor(memory / line.token_bytes) : 1e15;
            if (memory < 0 || most < 1) {
                continue;
            }
            const Layout layout{.degree = static_cast<double>(degree),
                                .depth = depth,
                                .extra_seconds = line.fixed_seconds - fixed,
                                .token_seconds = line.token_seconds / pace,
                                .squared_seconds = line.squared_token_seconds / pace,
                                .most_tokens = most};
            if (full != nullptr && beats(*full, layout)) {
                continue;
            }
            depths.push_back(layout);
            if (full == nullptr && layout.token_seconds * most >= longest_seconds * kSlack) {
                full = &depths.back();
            }
        }
        layouts.insert(layouts.end(), depths.begin(), depths.end());
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

bool Kinds::holds(std::size_t index, double tokens) const {
    const Layout& layout = this->layout(index);
    return tokens <= layout.most_tokens && layout.work(tokens) <= kinds_[index].room_seconds;
}

Shares Kinds::shares(std::size_t index, double tokens) const {
    const Layout& layout = this->layout(index);
    const double room = kinds_[index].room_seconds;
    const double by_time = room > 0 ? layout.work(tokens) / room : 0;
    Shares shares;
    shares.parts[0] = tokens / layout.most_tokens;
    shares.parts[1] = by_time;
    for (std::size_t q = 1; q <= kCuts; ++q) {
        // Tokens are whole numbers: half a token more than fits is still too much.
        shares.parts[1 + q] = whole_share(tokens / (layout.most_tokens + 0.5), q);
        shares.parts[1 + kCuts + q] = whole_share(by_time * kBelow, q);
    }
    return shares;
}

double Kinds::rank_seconds(std::size_t index, double tokens) const {
    const Layout& layout = this->layout(index);
    return layout.degree * layout.work(tokens);
}

}  // namespace dcp::plan::lp
