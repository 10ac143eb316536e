#include "core/plan/bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/plan/price_search.hpp"
#include "core/plan/price_table.hpp"

namespace dcp::plan {

namespace {

constexpr double kRounding = 1e-9;       // what sums of many prices may be off by
constexpr std::size_t kClasses = 120;    // of lengths, while a split is looked for
constexpr std::size_t kFewClasses = 24;  // where a rough bound will do
constexpr double kRough = 1e-3;
constexpr double kAreaPrecision = 5e-5;
constexpr double kLeastGain = 0.02;  // of a step towards better prices, in parts of the precision
constexpr double kFirstStep = 0.01;  // of the slots bound over the area bound
constexpr int kSlotsBelow = 3;
constexpr int kSlotsAbove = 4;

struct Demand {
    double tokens = 0;
    double least_work = 0;  // seconds, were every sequence alone on its best group
};

Demand demand_of(const WayFinder& ways, const Lengths& lengths) {
    Demand demand;
    for (std::size_t i = 0; i < lengths.tokens.size(); ++i) {
        const double seconds = ways.least_seconds(lengths.tokens[i], lengths.squared_tokens[i]);
        demand.tokens += lengths.counts[i] * lengths.tokens[i];
        demand.least_work += lengths.counts[i] * (seconds - ways.fixed_seconds());
    }
    return demand;
}

// Of the sequence that takes longest on its best group.
double longest_seconds(const WayFinder& ways, const Lengths& lengths) {
    double longest = 0;
    double dearest = -1;  // squared tokens of those that are longer
    for (std::size_t i = lengths.tokens.size(); i-- > 0;) {
        if (lengths.squared_tokens[i] > dearest) {  // or it takes no longer than one of those
            dearest = lengths.squared_tokens[i];
            longest = std::max(longest, ways.least_seconds(lengths.tokens[i], dearest));
        }
    }
    return longest;
}

// The counts of micro-batches worth looking at: near what the tokens of the batch ask of a rank.
std::vector<Slot> slot_window(const WayFinder& ways,
                              const Demand& demand,
                              double makespan,
                              int ranks) {
    const double fixed = ways.fixed_seconds();
    const double by_memory = demand.tokens / ways.most_rank_tokens() / ranks;
    const double by_time = demand.least_work / (makespan - fixed) / ranks;
    const double most = std::min(1e6, makespan / fixed);
    // A rank with as many micro-batches as its time could open has none left for work: the last
    // slot before that stands for it.
    const int top = std::max(1, static_cast<int>(most * (1 - 1e-6)));
    const int middle = std::clamp(static_cast<int>(std::max(by_memory, by_time)), 1, top);
    const int first = std::max(1, middle - kSlotsBelow);
    const int last = std::min(top, middle + kSlotsAbove);
    std::vector<Slot> slots;
    for (int count = first; count <= last; ++count) {
        slots.push_back({.count = count,
                         .stands_for_fewer = count == first && first > 1,
                         .stands_for_more = count == last && last + 1 <= most * (1 + kRounding)});
    }
    return slots;
}

// Largest makespan that is impossible, to a precision, between one that is and one that is not.
template <class IsImpossible>
double halved(double impossible, double possible, double precision, IsImpossible is_impossible) {
    while (possible - impossible > precision * impossible) {
        const double middle = (impossible + possible) / 2;
        (is_impossible(middle) ? impossible : possible) = middle;
    }
    return impossible;
}

// The same upward from one that is impossible, or the least of all.
template <class IsImpossible>
double search_above(double impossible, double step, double precision, IsImpossible is_impossible) {
    double high = impossible * (1 + step);
    while (is_impossible(high)) {
        impossible = high;
        step *= 2;
        high = impossible * (1 + step);
    }
    return halved(impossible, high, precision, is_impossible);
}

// The same around a guess.
template <class IsImpossible>
double search_near(double guess, double least, double precision, IsImpossible is_impossible) {
    if (guess <= least || is_impossible(guess)) {
        return search_above(std::max(guess, least), precision, precision, is_impossible);
    }
    double high = guess;
    double step = precision;
    double low = high / (1 + step);
    while (low > least && !is_impossible(low)) {
        high = low;
        step *= 2;
        low = high / (1 + step);
    }
    return halved(std::max(low, least), high, precision, is_impossible);
}

bool is_too_much(double total, int ranks) {
    return total > ranks * (1 + kRounding);
}

// `longest`: seconds of the sequence that takes longest.
double area_bound(const WayFinder& ways, const Lengths& lengths, int ranks, double longest) {
    const std::vector<Slot> one{{.count = 1}};
    const auto total = [&](double makespan) {
        return ways.total_price(makespan, one,
                                {{.share = ways.fixed_seconds() / makespan, .work = 1 / makespan}},
                                lengths);
    };
    // Prices times the makespan fall a little as it grows and more degrees are quick enough, so
    // this is where it ends or a little above.
    const double guess = longest * total(longest) / ranks;
    return search_near(guess, longest, kAreaPrecision,
                       [&](double makespan) { return is_too_much(total(makespan), ranks); });
}

// Classes of lengths find a guess and good splits; exact lengths prove.
class SlotsBound {
public:
    SlotsBound(const WayFinder& ways, const Lengths& lengths, int ranks, double precision)
        : ways_(ways),
          lengths_(lengths),
          coarse_(coarse_lengths(lengths, precision < kRough ? kClasses : kFewClasses)),
          demand_(demand_of(ways, coarse_)),
          ranks_(ranks),
          precision_(precision) {}

    double seconds(double area) {
        const double guess = search_above(area, kFirstStep, precision_, [&](double makespan) {
            return is_too_much(maximise(makespan, window(makespan), ranks_ * (1 + 2 * kRounding)),
                               ranks_);
        });
        return search_near(guess, area, precision_, [&](double makespan) {
            const bool is_shown = is_impossible(makespan, window(makespan));
            if (is_shown || precision_ >= kRough) {
                return is_shown;
            }
            slots_.clear();  // another start may lead to better prices
            return is_impossible(makespan, window(makespan));
        });
    }

    // In rounds, from a bound of independent steps: every number of micro-batches is impossible
    // alone.
    double seconds_in_rounds(double slots) {
        return search_above(slots, kFirstStep, precision_, [&](double makespan) {
            const std::vector<Slot> slots_here = window(makespan);
            return std::all_of(slots_here.begin(), slots_here.end(), [&](const Slot& slot) {
                slots_ = {slot};
                split_ = area_split(makespan, ways_.fixed_seconds(), slots_);
                return is_too_much(exact_total(makespan), ranks_) ||
                       is_impossible(makespan, {slot});
            });
        });
    }

private:
    std::vector<Slot> window(double makespan) const {
        return slot_window(ways_, demand_, makespan, ranks_);
    }

    bool is_impossible(double makespan, const std::vector<Slot>& slots) {
        maximise(makespan, slots, std::numeric_limits<double>::infinity());
        return is_too_much(exact_total(makespan), ranks_);
    }

    // The sum of prices of the classes, as large as it can be made, or just enough.
    double maximise(double makespan, const std::vector<Slot>& slots, double enough) {
        const double fixed = ways_.fixed_seconds();
        const bool is_near = slots == slots_;
        slots_ = slots;
        const SplitLimits limits = split_limits(makespan, fixed, slots_);
        const PriceTable table = ways_.table(makespan, slots_, coarse_);
        const PriceSum sum(table, coarse_.counts, slots_, makespan, fixed);
        split_ = sum.maximise(is_near ? split_ : area_split(makespan, fixed, slots_), limits,
                              {.enough = enough,
                               .least_gain = kLeastGain * precision_,
                               .starts_near = is_near,
                               .is_rough = precision_ >= kRough});
        return sum.total(split_);
    }

    double exact_total(double makespan) const {
        return ways_.total_price(makespan, slots_,
                                 slot_prices(makespan, ways_.fixed_seconds(), slots_, split_),
                                 lengths_);
    }

    const WayFinder& ways_;
    const Lengths& lengths_;
    Lengths coarse_;
    Demand demand_;
    int ranks_;
    double precision_;
    std::vector<Slot> slots_;
    Split split_;
};

// A rank of speed s that computes c seconds' worth (at speed 1) is busy for c / s at least, and no
// sharding makes the computation less: all ranks together compute at most the sum of their speeds a
// second. Fixed costs and exchanges are left out, for they are as long on every rank; so this says
// more than the other bounds only where speeds differ much.
double bound_by_speeds(const Problem& problem) {
    if (problem.topology.speeds.empty()) {
        return 0;
    }
    // Least rank-seconds of a token and of a squared token on any group; of all that pieces say of
    // a token, no more than what is computed of it.
    constexpr Load kMany{std::int64_t{1} << 30, 0};
    LinearCost least{.token_seconds = std::numeric_limits<double>::infinity(),
                     .squared_token_seconds = std::numeric_limits<double>::infinity()};
    for (const int degree : problem.degrees) {
        const double computed =
            cost_of(problem, kMany, degree, 0).compute_seconds / static_cast<double>(kMany.tokens);
        for (const CostPiece& piece : bounding_pieces(*problem.cost, degree, 0)) {
            least.token_seconds = std::min(least.token_seconds,
                                           degree * std::min(piece.line.token_seconds, computed));
            least.squared_token_seconds =
                std::min(least.squared_token_seconds, degree * piece.line.squared_token_seconds);
        }
    }
    double work = 0;
    for (const Sequence& sequence : problem.sequences) {
        work += least.seconds(load_of(sequence));
    }
    const std::vector<double>& speeds = problem.topology.speeds;
    return work / std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

}  // namespace

double LowerBounds::best_seconds() const {
    return std::max({longest_seconds, area_seconds, slots_seconds, speeds_seconds, rounds_seconds});
}

LowerBounds lower_bounds(const Problem& problem, double precision) {
    check_problem(problem);
    require_all_fit(problem);
    const double once = problem.cost->per_iteration_seconds();
    LowerBounds bounds{once, once, once, once, once};
    if (problem.sequences.empty()) {
        return bounds;
    }
    const WayFinder ways(problem);
    const Lengths lengths = distinct_lengths(problem);
    const int ranks = problem.topology.ranks;
    const double longest = longest_seconds(ways, lengths);
    const double area = area_bound(ways, lengths, ranks, longest);
    double slots = area;
    if (ways.fixed_seconds() > 0) {
        SlotsBound bound(ways, lengths, ranks, precision);
        slots = bound.seconds(area);
        if (problem.step_mode != StepMode::kIndependent) {
            bounds.rounds_seconds += bound.seconds_in_rounds(slots) * (1 - kRounding);
        }
    }
    bounds.speeds_seconds += bound_by_speeds(problem) * (1 - kRounding);
    bounds.longest_seconds += longest * (1 - kRounding);
    bounds.area_seconds += area * (1 - kRounding);
    bounds.slots_seconds += slots * (1 - kRounding);
    return bounds;
}

}  // namespace dcp::plan
