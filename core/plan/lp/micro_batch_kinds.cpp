#include "core/plan/lp/micro_batch_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp::plan::lp {

namespace {

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
    const double pace = problem.topology.fastest_pace();
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
             const std::vector<Pattern>& patterns,
             double makespan)
    : layouts_(layouts), patterns_(patterns), fixed_seconds_(fixed_seconds), makespan_(makespan) {
    kinds_.reserve(layouts.size() * patterns.size() * kRoles);
    for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
        for (const Role role : {kAnchor, kOther}) {
            for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
                kinds_.push_back(
                    {.layout = layout,
                     .place = place_of(pattern, role),
                     .room_seconds = room_seconds(patterns[pattern], role, layouts[layout])});
            }
        }
    }
}

double Kinds::room_seconds(const Pattern& pattern, Role role, const Layout& layout) const {
    constexpr double kNone = -1;
    const double room = makespan_ * kSlack - layout.extra_seconds;
    // Where a pattern stands for fewer micro-batches too, these may last longer.
    const int others = pattern.stands_for_fewer ? 0 : pattern.others;
    if (role == kOther) {
        const bool has_others = pattern.others > 0 || pattern.stands_for_more;
        return has_others
                   ? room - pattern.least_seconds() / kSlack - std::max(1, others) * fixed_seconds_
                   : kNone;
    }
    if (!pattern.anchor) {
        return kNone;
    }
    const double alone = fixed_seconds_ + layout.extra_seconds + layout.work(pattern.anchor->size);
    const bool is_in = alone >= pattern.anchor->from_seconds && alone < pattern.anchor->to_seconds;
    return is_in ? room - (1 + others) * fixed_seconds_ : kNone;
}

const Size* Kinds::anchor(std::size_t index) const {
    const std::size_t place = kinds_[index].place;
    const Pattern& pattern = patterns_[place / kRoles];
    return place % kRoles == kAnchor && pattern.anchor ? &pattern.anchor->size : nullptr;
}

bool Kinds::holds(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    const double room = kinds_[index].room_seconds;
    const std::optional<Size>& limit = patterns_[kinds_[index].place / kRoles].limit;
    const Size* anchor = this->anchor(index);
    if (anchor != nullptr && size == *anchor) {
        return size.tokens <= layout.most_tokens && layout.work(size) <= room;
    }
    const Size beside = anchor != nullptr ? *anchor : Size{};
    return !(limit && size >= *limit) && size.tokens + beside.tokens <= layout.most_tokens &&
           layout.work(size) + layout.work(beside) <= room;
}

Shares Kinds::shares(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    Shares shares;
    double room = kinds_[index].room_seconds;
    double most_tokens = layout.most_tokens;
    if (const Size* anchor = this->anchor(index)) {
        if (size == *anchor) {
            return shares;  // the others share what it leaves
        }
        room -= layout.work(*anchor);
        most_tokens -= anchor->tokens;
    }
    const double by_time = room > 0 ? layout.work(size) / room : 0;
    // Tokens are whole numbers: half a token more than fits is still too much.
    add_shares(size.tokens / most_tokens, size.tokens / (most_tokens + 0.5), 0, shares);
    add_shares(by_time, by_time * kBelow, Shares::kCount / 2, shares);
    return shares;
}

double Kinds::rank_seconds(std::size_t index, const Size& size) const {
    const Layout& layout = this->layout(index);
    return layout.degree * layout.work(size);
}

}  // namespace dcp::plan::lp
