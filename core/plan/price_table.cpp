#include "core/plan/price_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dcp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A bound must hold for every plan that validate() accepts, and that allows 1e-9.
constexpr double kSlack = 1 + 4e-9;

struct Corner {
    double share;
    double work;
};

// The corners of the lower left hull: a + lambda b with lambda >= 0 has its least value at one.
void keep_hull(std::vector<Corner>& corners) {
    if (corners.size() < 2) {
        return;
    }
    std::sort(corners.begin(), corners.end(), [](const Corner& a, const Corner& b) {
        return a.share != b.share ? a.share < b.share : a.work < b.work;
    });
    std::size_t kept = 0;
    for (const Corner corner : corners) {
        if (kept > 0 && corner.work >= corners[kept - 1].work) {
            continue;
        }
        while (kept >= 2) {
            const Corner& a = corners[kept - 2];
            const Corner& b = corners[kept - 1];
            const double turn = (b.share - a.share) * (corner.work - a.work) -
                                (b.work - a.work) * (corner.share - a.share);
            if (turn > 0) {
                break;
            }
            --kept;
        }
        corners[kept++] = corner;
    }
    corners.resize(kept);
}

}  // namespace

Lengths distinct_lengths(const Problem& problem) {
    std::vector<std::pair<std::int64_t, double>> all;
    all.reserve(problem.sequences.size());
    for (const Sequence& sequence : problem.sequences) {
        const Load load = load_of(sequence);
        all.emplace_back(load.tokens, load.squared_tokens);
    }
    std::sort(all.begin(), all.end());
    Lengths lengths;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i > 0 && all[i] == all[i - 1]) {
            ++lengths.counts.back();
            continue;
        }
        lengths.tokens.push_back(static_cast<double>(all[i].first));
        lengths.squared_tokens.push_back(all[i].second);
        lengths.counts.push_back(1);
    }
    return lengths;
}

Lengths coarse_lengths(const Lengths& lengths, std::size_t most) {
    Lengths coarse;
    const std::size_t size = lengths.tokens.size();
    for (std::size_t i = 0; i < std::min(most, size); ++i) {
        const std::size_t begin = size <= most ? i : i * size / most;
        const std::size_t end = size <= most ? i + 1 : (i + 1) * size / most;
        double count = 0;
        double tokens = 0;
        double squared = 0;
        for (std::size_t j = begin; j < end; ++j) {
            count += lengths.counts[j];
            tokens += lengths.counts[j] * lengths.tokens[j];
            squared += lengths.counts[j] * lengths.squared_tokens[j];
        }
        coarse.tokens.push_back(tokens / count);
        coarse.squared_tokens.push_back(squared / count);
        coarse.counts.push_back(count);
    }
    return coarse;
}

std::vector<CostPiece> bounding_pieces(const CostModel& cost, int degree, int layers) {
    std::vector<CostPiece> pieces = cost.pieces(degree, layers);
    for (std::size_t i = 1; i < pieces.size(); ++i) {
        LinearCost& line = pieces[i].line;
        if (line.fixed_seconds < 0) {  // turned about the point where the piece begins
            line.token_seconds +=
                line.fixed_seconds / static_cast<double>(pieces[i - 1].most_tokens);
            line.fixed_seconds = 0;
        }
    }
    return pieces;
}

WayFinder::WayFinder(const Problem& problem) {
    fixed_seconds_ = kNever;
    for (int layers = 0; layers <= problem.max_recompute_layers(); ++layers) {
        for (const int degree : problem.degrees) {
            for (const CostPiece& piece : bounding_pieces(*problem.cost, degree, layers)) {
                fixed_seconds_ = std::min(fixed_seconds_, piece.line.fixed_seconds);
            }
        }
    }
    for (int layers = 0; layers <= problem.max_recompute_layers(); ++layers) {
        Depth depth{.options = {}, .squared_area = kNever, .rank_tokens = 0};
        for (const int degree : problem.degrees) {
            add_options(depth, problem, degree, layers);
        }
        std::sort(depth.options.begin(), depth.options.end(), [](const Option& a, const Option& b) {
            return a.token_area != b.token_area ? a.token_area < b.token_area : a.degree < b.degree;
        });
        if (!depth.options.empty()) {
            depths_.push_back(std::move(depth));
        }
    }
}

void WayFinder::add_options(Depth& depth, const Problem& problem, int degree, int layers) const {
    // The fastest rank sets the pace of the bound.
    double pace = problem.topology.speeds.empty() ? 1 : 0;
    for (const double speed : problem.topology.speeds) {
        pace = std::max(pace, speed);
    }
    double least = 0;  // tokens of the piece
    for (const CostPiece& piece : bounding_pieces(*problem.cost, degree, layers)) {
        const LinearCost& line = piece.line;
        const double room = problem.memory_budget_bytes * kSlack - line.static_bytes;
        const double most = std::min(line.token_bytes > 0 ? room / line.token_bytes : kNever,
                                     static_cast<double>(piece.most_tokens));
        if (room < 0 || most < 1 || most <= least) {
            continue;
        }
        least = static_cast<double>(piece.most_tokens);
        const double p = degree;
        const double extra = line.fixed_seconds - fixed_seconds_;
        depth.options.push_back({.degree = p,
                                 .extra_seconds = extra,
                                 .token_seconds = line.token_seconds / pace,
                                 .squared_seconds = line.squared_token_seconds / pace,
                                 .most_tokens = most,
                                 .token_area = p * line.token_seconds / pace + p * extra / most});
        depth.squared_area = std::min(depth.squared_area, p * line.squared_token_seconds / pace);
        depth.rank_tokens = std::max(depth.rank_tokens, most / p);
    }
}

double WayFinder::most_rank_tokens() const {
    double most = 0;
    for (const Depth& depth : depths_) {
        most = std::max(most, depth.rank_tokens);
    }
    return most;
}

double WayFinder::least_seconds(double tokens, double squared_tokens) const {
    double least = kNever;
    for (const Depth& depth : depths_) {
        for (const Option& option : depth.options) {
            if (tokens <= option.most_tokens) {
                least = std::min(least, fixed_seconds_ + option.extra_seconds +
                                            option.token_seconds * tokens +
                                            option.squared_seconds * squared_tokens);
            }
        }
    }
    return least;
}

double WayFinder::work_room(double makespan, const Slot& slot) const {
    // Where a slot stands for fewer micro-batches too, one alone may last longest.
    const int count = slot.stands_for_fewer ? 1 : slot.count;
    return makespan * kSlack - count * fixed_seconds_;
}

bool WayFinder::least_work(const Depth& depth,
                           double work_room,
                           const Lengths& lengths,
                           std::span<double> work) const {
    // One kind of share for all lengths: tokens, or time where that takes more.
    double by_tokens = 0;
    double by_time = 0;
    double before = 0;  // squared tokens of the length before
    auto option = depth.options.begin();
    for (std::size_t i = 0; i < work.size(); ++i) {
        const double l = lengths.tokens[i];
        const double squared = lengths.squared_tokens[i];
        // The options are sorted: the first that holds a length is the cheapest. What did not hold
        // a length does not hold one that is longer and dearer.
        if (squared < before) {
            option = depth.options.begin();
        }
        before = squared;
        while (option != depth.options.end() &&
               (l > option->most_tokens || option->extra_seconds + option->token_seconds * l +
                                                   option->squared_seconds * squared >
                                               work_room)) {
            ++option;
        }
        if (option == depth.options.end()) {
            work[i] = kNever;
            continue;
        }
        work[i] = option->token_area * l + depth.squared_area * squared;
        by_tokens += lengths.counts[i] * l;
        by_time += lengths.counts[i] * work[i];
    }
    return work_room > 0 && by_time / work_room > by_tokens / depth.rank_tokens;
}

double WayFinder::total_price(double makespan,
                              const std::vector<Slot>& slots,
                              const std::vector<SlotPrice>& prices,
                              const Lengths& lengths) const {
    const std::size_t size = lengths.tokens.size();
    std::vector<double> least(size, kNever);
    std::vector<double> work(size);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const double room = work_room(makespan, slots[slot]);
        for (const Depth& depth : depths_) {
            const bool by_time = least_work(depth, room, lengths, work);
            const double a_token = by_time ? 0 : prices[slot].share / depth.rank_tokens;
            const double a_second = prices[slot].work + (by_time ? prices[slot].share / room : 0);
            for (std::size_t i = 0; i < size; ++i) {
                if (work[i] < kNever) {
                    least[i] = std::min(least[i], a_token * lengths.tokens[i] + a_second * work[i]);
                }
            }
        }
    }
    double total = 0;
    for (std::size_t i = 0; i < size; ++i) {
        total += lengths.counts[i] * least[i];
    }
    return total;
}

PriceTable WayFinder::table(double makespan,
                            const std::vector<Slot>& slots,
                            const Lengths& lengths) const {
    const std::size_t size = lengths.tokens.size();
    const std::size_t num_depths = depths_.size();
    std::vector<double> work(slots.size() * num_depths * size);  // by slot, depth and length
    std::vector<double> room_for_shares;  // by slot and depth; 0: shares are by tokens
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const double room = work_room(makespan, slots[slot]);
        for (const Depth& depth : depths_) {
            const std::span<double> own =
                std::span(work).subspan(room_for_shares.size() * size, size);
            room_for_shares.push_back(least_work(depth, room, lengths, own) ? room : 0);
        }
    }
    PriceTable table;
    table.ways.reserve(slots.size() * size);
    table.begins.reserve(size + 1);
    std::vector<Corner> corners;
    for (std::size_t i = 0; i < size; ++i) {
        table.begins.push_back(table.ways.size());
        for (std::size_t slot = 0; slot < slots.size(); ++slot) {
            corners.clear();
            for (std::size_t depth = 0; depth < num_depths; ++depth) {
                const std::size_t place = slot * num_depths + depth;
                const double seconds = work[place * size + i];
                const double room = room_for_shares[place];
                if (seconds < kNever) {
                    corners.push_back(
                        {.share = room > 0 ? seconds / room
                                           : lengths.tokens[i] / depths_[depth].rank_tokens,
                         .work = seconds});
                }
            }
            keep_hull(corners);
            for (const Corner& corner : corners) {
                table.ways.push_back(
                    {.slot = static_cast<int>(slot), .share = corner.share, .work = corner.work});
            }
        }
    }
    table.begins.push_back(table.ways.size());
    return table;
}

}  // namespace dcp::plan
