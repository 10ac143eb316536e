#include "core/plan/price_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

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
    std::vector<Corner> hull;
    for (const Corner& corner : corners) {
        if (!hull.empty() && corner.work >= hull.back().work) {
            continue;
        }
        while (hull.size() >= 2) {
            const Corner& a = hull[hull.size() - 2];
            const Corner& b = hull.back();
            const double turn = (b.share - a.share) * (corner.work - a.work) -
                                (b.work - a.work) * (corner.share - a.share);
            if (turn > 0) {
                break;
            }
            hull.pop_back();
        }
        hull.push_back(corner);
    }
    corners = std::move(hull);
}

}  // namespace

Lengths distinct_lengths(const Problem& problem) {
    std::map<std::pair<std::int64_t, double>, int> counts;
    for (const Sequence& sequence : problem.sequences) {
        const Load load = load_of(sequence);
        ++counts[{load.tokens, load.squared_tokens}];
    }
    Lengths lengths;
    for (const auto& [length, count] : counts) {
        lengths.tokens.push_back(static_cast<double>(length.first));
        lengths.squared_tokens.push_back(length.second);
        lengths.counts.push_back(count);
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

namespace {

// The pieces of a cost as lines that are nowhere above it and have no negative fixed part: that is
// what the proofs need of a micro-batch that a piece describes.
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

}  // namespace

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
    // Ranks faster than 1 shorten what is computed; the fastest sets the pace of the bound.
    double pace = 1;
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

std::vector<double> WayFinder::least_work(const Depth& depth,
                                          double room,
                                          const Lengths& lengths) const {
    std::vector<double> work(lengths.tokens.size(), kNever);
    for (std::size_t i = 0; i < lengths.tokens.size(); ++i) {
        const double l = lengths.tokens[i];
        const double squared = lengths.squared_tokens[i];
        for (const Option& option : depth.options) {
            const double seconds = fixed_seconds_ + option.extra_seconds +
                                   option.token_seconds * l + option.squared_seconds * squared;
            if (l <= option.most_tokens && seconds <= room) {
                work[i] = option.token_area * l + depth.squared_area * squared;
                break;  // the options are sorted: the first is the cheapest
            }
        }
    }
    return work;
}

PriceTable WayFinder::table(double makespan,
                            const std::vector<Slot>& slots,
                            const Lengths& lengths) const {
    const std::size_t size = lengths.tokens.size();
    std::vector<std::vector<Way>> found(size);
    std::vector<std::vector<Corner>> corners(size);
    for (std::size_t i = 0; i < size; ++i) {
        found[i].reserve(slots.size());
        corners[i].reserve(depths_.size());
    }
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        // Where a slot stands for fewer micro-batches too, one alone may last longest.
        const int count = slots[slot].stands_for_fewer ? 1 : slots[slot].count;
        const double work_room = makespan * kSlack - count * fixed_seconds_;
        for (const Depth& depth : depths_) {
            const std::vector<double> work = least_work(depth, work_room + fixed_seconds_, lengths);
            // One kind of share for all lengths: tokens, or time where that takes more.
            double by_tokens = 0;
            double by_time = 0;
            for (std::size_t i = 0; i < size; ++i) {
                if (work[i] < kNever) {
                    by_tokens += lengths.counts[i] * lengths.tokens[i] / depth.rank_tokens;
                    by_time += work_room > 0 ? lengths.counts[i] * work[i] / work_room : 0;
                }
            }
            for (std::size_t i = 0; i < size; ++i) {
                if (work[i] < kNever) {
                    corners[i].push_back({.share = by_time > by_tokens
                                                       ? work[i] / work_room
                                                       : lengths.tokens[i] / depth.rank_tokens,
                                          .work = work[i]});
                }
            }
        }
        for (std::size_t i = 0; i < size; ++i) {
            keep_hull(corners[i]);
            for (const Corner& corner : corners[i]) {
                found[i].push_back(
                    {.slot = static_cast<int>(slot), .share = corner.share, .work = corner.work});
            }
            corners[i].clear();
        }
    }
    PriceTable table;
    for (const std::vector<Way>& ways : found) {
        table.begins.push_back(table.ways.size());
        table.ways.insert(table.ways.end(), ways.begin(), ways.end());
    }
    table.begins.push_back(table.ways.size());
    return table;
}

}  // namespace dcp::plan
