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
constexpr std::size_t kFewClasses = 40;  // where a rough bound will do
constexpr double kRough = 1e-3;
constexpr int kSlotsBelow = 3;
constexpr int kSlotsAbove = 4;

struct Demand {
    double tokens = 0;
    double least_work = 0;       // seconds, were every sequence alone on its best group
    double longest_seconds = 0;  // of a sequence there
};

Demand demand_of(const WayFinder& ways, const Lengths& lengths) {
    Demand demand;
    for (std::size_t i = 0; i < lengths.tokens.size(); ++i) {
        const double seconds = ways.least_seconds(lengths.tokens[i], lengths.squared_tokens[i]);
        demand.tokens += lengths.counts[i] * lengths.tokens[i];
        demand.least_work += lengths.counts[i] * (seconds - ways.fixed_seconds());
        demand.longest_seconds = std::max(demand.longest_seconds, seconds);
    }
    return demand;
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

bool has_no_way(const PriceTable& table) {
    return std::adjacent_find(table.begins.begin(), table.begins.end()) != table.begins.end();
}

// No plan in rounds of this length, however many rounds it has.
bool is_impossible_in_rounds(const WayFinder& ways,
                             const Lengths& lengths,
                             const std::vector<Slot>& window,
                             double makespan,
                             int ranks) {
    const double fixed = ways.fixed_seconds();
    return std::all_of(window.begin(), window.end(), [&](const Slot& slot) {
        const std::vector<Slot> one{slot};
        const PriceTable table = ways.table(makespan, one, lengths);
        if (has_no_way(table)) {
            return true;
        }
        const PriceSum prices(table, lengths.counts, one, makespan, fixed);
        const Split split =
            prices.maximise(area_split(makespan, fixed, one), split_limits(makespan, fixed, one));
        return prices.total(split) > ranks * (1 + kRounding);
    });
}

// Largest makespan shown impossible, from one that is known to be impossible (or the least of all)
// upward.
template <class IsImpossible>
double search(double impossible, double precision, IsImpossible is_impossible) {
    double step = 0.01;
    double high = impossible * (1 + step);
    while (is_impossible(high)) {
        impossible = high;
        step *= 2;
        high = impossible * (1 + step);
    }
    while (high - impossible > precision * impossible) {
        const double middle = (impossible + high) / 2;
        (is_impossible(middle) ? impossible : high) = middle;
    }
    return impossible;
}

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
    const double fixed = ways.fixed_seconds();
    const auto is_too_much = [&](double total) { return total > ranks * (1 + kRounding); };

    const Demand demand = demand_of(ways, lengths);
    const double longest = demand.longest_seconds;
    const double area = search(longest, precision, [&](double makespan) {
        const std::vector<Slot> one{{.count = 1}};
        const PriceTable table = ways.table(makespan, one, lengths);
        // With one micro-batch in the table, the area's price of a share is f / T all the same.
        double total = 0;
        for (std::size_t i = 0; i < lengths.tokens.size(); ++i) {
            double price = std::numeric_limits<double>::infinity();
            for (std::size_t j = table.begins[i]; j < table.begins[i + 1]; ++j) {
                price = std::min(price, (fixed * table.ways[j].share + table.ways[j].work));
            }
            total += lengths.counts[i] * price / makespan;
        }
        return is_too_much(total);
    });
    double slots_bound = area;
    if (fixed > 0) {
        const Lengths coarse = coarse_lengths(lengths, precision < kRough ? kClasses : kFewClasses);
        slots_bound = search(area, precision, [&](double makespan) {
            const std::vector<Slot> slots = slot_window(ways, demand, makespan, ranks);
            const PriceTable exact = ways.table(makespan, slots, lengths);
            if (has_no_way(exact)) {
                return true;
            }
            const PriceTable rough = ways.table(makespan, slots, coarse);
            const Split split = PriceSum(rough, coarse.counts, slots, makespan, fixed)
                                    .maximise(area_split(makespan, fixed, slots),
                                              split_limits(makespan, fixed, slots));
            return is_too_much(
                PriceSum(exact, lengths.counts, slots, makespan, fixed).total(split));
        });
    }
    if (fixed > 0 && problem.step_mode != StepMode::kIndependent) {
        bounds.rounds_seconds +=
            search(slots_bound, precision,
                   [&](double makespan) {
                       return is_impossible_in_rounds(ways, lengths,
                                                      slot_window(ways, demand, makespan, ranks),
                                                      makespan, ranks);
                   }) *
            (1 - kRounding);
    }
    bounds.speeds_seconds += bound_by_speeds(problem) * (1 - kRounding);
    bounds.longest_seconds += longest * (1 - kRounding);
    bounds.area_seconds += area * (1 - kRounding);
    bounds.slots_seconds += slots_bound * (1 - kRounding);
    return bounds;
}

}  // namespace dcp::plan
