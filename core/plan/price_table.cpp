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

void add_sums(Lengths& lengths) {
    lengths.token_sums.push_back(0);
    lengths.squared_sums.push_back(0);
    for (std::size_t i = 0; i < lengths.tokens.size(); ++i) {
        lengths.token_sums.push_back(lengths.token_sums.back() +
                                     lengths.counts[i] * lengths.tokens[i]);
        lengths.squared_sums.push_back(lengths.squared_sums.back() +
                                       lengths.counts[i] * lengths.squared_tokens[i]);
    }
    lengths.squares_rise =
        std::is_sorted(lengths.squared_tokens.begin(), lengths.squared_tokens.end());
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
    add_sums(lengths);
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
    add_sums(coarse);
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
    const double pace = problem.topology.fastest_pace();
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
                           std::vector<Stretch>& stretches) const {
    const std::size_t size = lengths.tokens.size();
    const auto holds = [&](const Option& option, std::size_t i) {
        return lengths.tokens[i] <= option.most_tokens &&
               option.extra_seconds + option.token_seconds * lengths.tokens[i] +
                       option.squared_seconds * lengths.squared_tokens[i] <=
                   work_room;
    };
    // The first length from `low` on that the option does not hold, where lengths are rising in
    // all.
    const auto end_of = [&](const Option& option, std::size_t low) {
        std::size_t high = size;
        while (low < high) {
            const std::size_t middle = low + (high - low) / 2;
            if (holds(option, middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return high;
    };
    // One kind of share for all lengths: tokens, or time where that takes more.
    double by_tokens = 0;
    double by_time = 0;
    stretches.clear();
    auto option = depth.options.begin();
    for (std::size_t begin = 0; begin < size;) {
        // The options are sorted: the first that holds a length is the cheapest. What did not hold
        // a length does not hold one that is longer and dearer.
        if (begin > 0 && lengths.squared_tokens[begin] < lengths.squared_tokens[begin - 1]) {
            option = depth.options.begin();
        }
        while (option != depth.options.end() && !holds(*option, begin)) {
            ++option;
        }
        if (option == depth.options.end()) {
            if (lengths.squares_rise) {
                break;
            }
            ++begin;
            continue;
        }
        const std::size_t end = lengths.squares_rise ? end_of(*option, begin + 1) : begin + 1;
        const double tokens = lengths.token_sums[end] - lengths.token_sums[begin];
        const double squares = lengths.squared_sums[end] - lengths.squared_sums[begin];
        by_tokens += tokens;
        by_time += option->token_area * tokens + depth.squared_area * squares;
        stretches.push_back({.begin = begin, .end = end, .token_area = option->token_area});
        begin = end;
    }
    return work_room > 0 && by_time / work_room > by_tokens / depth.rank_tokens;
}

double WayFinder::total_price(double makespan,
                              const std::vector<Slot>& slots,
                              const std::vector<SlotPrice>& prices,
                              const Lengths& lengths) const {
    const std::size_t size = lengths.tokens.size();
    std::vector<double> least(size, kNever);
    std::vector<Stretch> stretches;
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const double room = work_room(makespan, slots[slot]);
        for (const Depth& depth : depths_) {
            const bool by_time = least_work(depth, room, lengths, stretches);
            const double a_token = by_time ? 0 : prices[slot].share / depth.rank_tokens;
            const double a_second = prices[slot].work + (by_time ? prices[slot].share / room : 0);
            const double squared = a_second * depth.squared_area;
            for (const Stretch& stretch : stretches) {
                const double token = a_token + a_second * stretch.token_area;
                for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
                    least[i] = std::min(
                        least[i], token * lengths.tokens[i] + squared * lengths.squared_tokens[i]);
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
    std::vector<double> work(slots.size() * num_depths * size, kNever);  // by slot, depth, length
    std::vector<Stretch> stretches;
    std::vector<double> room_for_shares;  // by slot and depth; 0: shares are by tokens
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const double room = work_room(makespan, slots[slot]);
        for (const Depth& depth : depths_) {
            const std::span<double> own =
                std::span(work).subspan(room_for_shares.size() * size, size);
            room_for_shares.push_back(least_work(depth, room, lengths, stretches) ? room : 0);
            for (const Stretch& stretch : stretches) {
                for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
                    own[i] = stretch.token_area * lengths.tokens[i] +
                             depth.squared_area * lengths.squared_tokens[i];
                }
            }
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
