#include "core/plan/lp/lp_bound.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/plan/bound.hpp"
#include "core/plan/lp/price_program.hpp"

namespace dcp::plan::lp {

namespace {

constexpr double kPrecision = 1e-4;  // of the search, relative
constexpr double kFirstStep = 0.0025;
constexpr double kRounding = 1e-9;    // what sums of many prices may be off by
constexpr double kMostOverCheap = 3;  // the search ends here at the latest
constexpr std::size_t kOwn = 40;      // longest lengths, each with a part of its own
constexpr std::size_t kClasses = 70;  // of the other lengths
constexpr int kSlotsBelow = 3;
constexpr int kSlotsAbove = 5;
constexpr int kMostRounds = 40;

// The longest lengths as they are, the others in classes of about as many tokens.
Priced priced_lengths(const Lengths& exact) {
    const std::size_t size = exact.tokens.size();
    Priced priced;
    const std::size_t num_own = std::min(kOwn, size);
    const std::size_t num_rest = size - num_own;
    double rest = 0;
    for (std::size_t i = 0; i < num_rest; ++i) {
        rest += exact.counts[i] * exact.tokens[i];
    }
    double count = 0;
    double tokens = 0;
    double squared = 0;
    double before = 0;
    for (std::size_t i = 0; i < num_rest; ++i) {
        count += exact.counts[i];
        tokens += exact.counts[i] * exact.tokens[i];
        squared += exact.counts[i] * exact.squared_tokens[i];
        const double until = before + tokens;
        const bool is_full = until * static_cast<double>(kClasses) >=
                             rest * static_cast<double>(priced.lengths.tokens.size() + 1);
        if (is_full || i + 1 == num_rest) {
            priced.lengths.tokens.push_back(tokens / count);
            priced.lengths.squared_tokens.push_back(squared / count);
            priced.lengths.counts.push_back(count);
            before = until;
            count = 0;
            tokens = 0;
            squared = 0;
        }
    }
    priced.first_own = priced.lengths.tokens.size();
    for (std::size_t i = num_rest; i < size; ++i) {
        priced.lengths.tokens.push_back(exact.tokens[i]);
        priced.lengths.squared_tokens.push_back(exact.squared_tokens[i]);
        priced.lengths.counts.push_back(exact.counts[i]);
    }
    return priced;
}

// A kind that was in a program, whatever the makespan was: (number of micro-batches, layout).
using Remembered = std::pair<int, std::size_t>;

class Search {
public:
    Search(const Problem& problem, double longest_seconds)
        : fixed_seconds_(least_fixed_seconds(problem)),
          layouts_(layouts_of(problem, longest_seconds)),
          exact_(distinct_lengths(problem)),
          priced_(priced_lengths(exact_)),
          ranks_(problem.topology.ranks) {
        for (std::size_t i = 0; i < exact_.tokens.size(); ++i) {
            tokens_ += exact_.tokens[i] * exact_.counts[i];
        }
    }

    // Whether some prices show that no plan lasts this long or less.
    bool is_impossible(double makespan);

private:
    std::vector<Slot> slots(double makespan) const;
    std::vector<Rule> first_rules(const Kinds& kinds,
                                  const std::vector<Slot>& slots,
                                  double makespan) const;
    std::vector<Rule> broken_rules(const Kinds& kinds,
                                   const PriceProgram& program,
                                   const Certificate& certificate) const;
    void add_rules(const Kinds& kinds, std::size_t kind, std::vector<Rule>& rules) const;

    double fixed_seconds_;
    std::vector<Layout> layouts_;
    Lengths exact_;
    Priced priced_;
    int ranks_;
    double tokens_ = 0;
    std::set<Remembered> remembered_;
};

// Counts of micro-batches near what the tokens of the batch ask of a rank.
std::vector<Slot> Search::slots(double makespan) const {
    if (fixed_seconds_ <= 0) {
        return {{.count = 1, .stands_for_fewer = false, .stands_for_more = true}};
    }
    double rank_tokens = 1;
    for (const Layout& layout : layouts_) {
        const double by_time = layout.token_seconds > 0
                                   ? (makespan - fixed_seconds_) / layout.token_seconds
                                   : layout.most_tokens;
        rank_tokens = std::max(rank_tokens, std::min(layout.most_tokens, by_time) / layout.degree);
    }
    const double most = std::min(1e6, makespan / fixed_seconds_);
    const int top = std::max(1, static_cast<int>(most * (1 + kRounding)));
    const int middle =
        std::clamp(static_cast<int>(std::min(1e6, tokens_ / (ranks_ * rank_tokens))), 1, top);
    const int first = std::max(1, middle - kSlotsBelow);
    const int last = std::min(top, middle + kSlotsAbove);
    std::vector<Slot> slots;
    for (int count = first; count <= last; ++count) {
        slots.push_back({.count = count,
                         .stands_for_fewer = count == first && first > 1,
                         .stands_for_more = count == last && last < top});
    }
    return slots;
}

// What every length pays by the area bound's prices in each slot, and what mattered before.
std::vector<Rule> Search::first_rules(const Kinds& kinds,
                                      const std::vector<Slot>& slots,
                                      double makespan) const {
    std::set<std::size_t> chosen;
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const std::vector<Slot> alone{slots[slot]};
        const Kinds here(layouts_, fixed_seconds_, alone, makespan);
        const Certificate area =
            certify(here, alone, fixed_seconds_, makespan, priced_.lengths,
                    {.open = {fixed_seconds_ / makespan}, .work = {1 / makespan}, .rights = {}});
        for (const Certificate::Price& price : area.prices.front()) {
            if (std::isfinite(price.price)) {
                chosen.insert(kinds.find(slot, here.kind(price.kind).layout));
            }
        }
        for (const auto& [count, layout] : remembered_) {
            if (count == slots[slot].count) {
                chosen.insert(kinds.find(slot, layout));
            }
        }
    }
    std::vector<Rule> rules;
    for (const std::size_t kind : chosen) {
        add_rules(kinds, kind, rules);
    }
    return rules;
}

// A kind that joins the program does so with all lengths that it holds.
void Search::add_rules(const Kinds& kinds, std::size_t kind, std::vector<Rule>& rules) const {
    for (std::size_t i = 0; i < priced_.lengths.tokens.size(); ++i) {
        if (kinds.holds(kind, size_at(priced_.lengths, i))) {
            rules.emplace_back(kind, i);
        }
    }
}

// Kinds outside the program at which a length pays less than the program believes.
std::vector<Rule> Search::broken_rules(const Kinds& kinds,
                                       const PriceProgram& program,
                                       const Certificate& certificate) const {
    std::set<std::size_t> broken;
    for (const std::vector<Certificate::Price>& slot : certificate.prices) {
        for (std::size_t i = 0; i < slot.size(); ++i) {
            if (slot[i].price < program.price(i) * (1 - 1e-6) && !program.has(slot[i].kind)) {
                broken.insert(slot[i].kind);
            }
        }
    }
    std::vector<Rule> rules;
    for (const std::size_t kind : broken) {
        add_rules(kinds, kind, rules);
    }
    return rules;
}

bool Search::is_impossible(double makespan) {
    const std::vector<Slot> slots = this->slots(makespan);
    const Kinds kinds(layouts_, fixed_seconds_, slots, makespan);
    PriceProgram program(kinds, slots, fixed_seconds_, makespan, priced_);
    std::vector<Rule> rules = first_rules(kinds, slots, makespan);
    bool is_proved = false;
    for (int round = 0; round < kMostRounds && !rules.empty(); ++round) {
        program.add(rules);
        if (!program.solve() || program.total() <= ranks_) {
            break;  // more rules can only lower the total
        }
        const Multipliers multipliers = program.multipliers();
        const Certificate rough =
            certify(kinds, slots, fixed_seconds_, makespan, priced_.lengths, multipliers);
        if (rough.total > ranks_) {
            const Certificate exact =
                certify(kinds, slots, fixed_seconds_, makespan, exact_, multipliers);
            is_proved = exact.total > ranks_ * (1 + kRounding);
            if (is_proved) {
                break;
            }
        }
        rules = broken_rules(kinds, program, rough);
    }
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        if (program.has(kind)) {
            remembered_.emplace(slots[kinds.kind(kind).slot].count, kinds.kind(kind).layout);
        }
    }
    return is_proved;
}

}  // namespace

double lower_bound_seconds(const Problem& problem, double known_seconds) {
    const double once = problem.cost->per_iteration_seconds();
    const double cheap = lower_bounds(problem).best_seconds();
    if (problem.sequences.empty() || known_seconds <= cheap) {
        return cheap;
    }
    double impossible = cheap - once;
    double high = std::min(impossible * kMostOverCheap, known_seconds - once);
    Search search(problem, high);
    for (double step = kFirstStep; impossible * (1 + step) < high; step *= 2) {
        const double tried = impossible * (1 + step);
        (search.is_impossible(tried) ? impossible : high) = tried;
    }
    while (high - impossible > kPrecision * impossible) {
        const double middle = (impossible + high) / 2;
        (search.is_impossible(middle) ? impossible : high) = middle;
    }
    return std::max(cheap, once + impossible * (1 - kRounding));
}

}  // namespace dcp::plan::lp
