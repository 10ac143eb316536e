#include "core/plan/lp/lp_bound.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/plan/bound.hpp"
#include "core/plan/lp/price_program.hpp"

namespace dcp::plan::lp {

namespace {

constexpr double kPrecision = 2e-4;  // of the search, relative
constexpr double kGain = 1e-4;       // a try for less is not worth its time
constexpr int kMostTooLong = 2;
constexpr double kFirstStep = 0.0025;
constexpr double kRounding = 1e-9;    // what sums of many prices may be off by
constexpr double kMostOverCheap = 3;  // the search ends here at the latest
constexpr std::size_t kOwn = 40;      // longest lengths, each with a part of its own
constexpr std::size_t kClasses = 70;  // of the other lengths
constexpr std::size_t kAnchors = 2;   // greatest sizes whose ranks are looked at apart
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

// A kind that was in a program, whatever the makespan was.
struct Remembered {
    Size anchor;
    double least_seconds = 0;
    int others = 0;
    std::size_t role = kOther;
    std::size_t layout = 0;
    auto operator<=>(const Remembered&) const = default;
};

Remembered remembered(const Pattern& pattern, std::size_t role, std::size_t layout) {
    return {.anchor = pattern.anchor ? pattern.anchor->size : Size{},
            .least_seconds = pattern.least_seconds(),
            .others = pattern.others,
            .role = role,
            .layout = layout};
}

struct Trial {
    bool is_impossible = false;  // some prices show that no plan lasts so long or less
    // What the sequences pay of all that ranks can earn: by prices that hold where there are any,
    // otherwise at most.
    double filled = 0;
};

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

    Trial try_makespan(double makespan);

private:
    std::vector<Pattern> patterns(double makespan) const;
    std::vector<Rule> first_rules(const Kinds& kinds,
                                  const std::vector<Pattern>& patterns,
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

std::vector<Pattern> Search::patterns(double makespan) const {
    double rank_tokens = 1;
    for (const Layout& layout : layouts_) {
        const double by_time = layout.token_seconds > 0
                                   ? (makespan - fixed_seconds_) / layout.token_seconds
                                   : layout.most_tokens;
        rank_tokens = std::max(rank_tokens, std::min(layout.most_tokens, by_time) / layout.degree);
    }
    return rank_patterns({.fixed_seconds = fixed_seconds_,
                          .makespan = makespan,
                          .mean_count = tokens_ / (ranks_ * rank_tokens)},
                         layouts_, exact_, kAnchors);
}

// What every length pays by the area bound's prices at each place, and what mattered before.
std::vector<Rule> Search::first_rules(const Kinds& kinds,
                                      const std::vector<Pattern>& patterns,
                                      double makespan) const {
    std::set<std::size_t> chosen;
    const double open = fixed_seconds_ / makespan;
    const double work = 1 / makespan;
    for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
        const std::vector<Pattern> alone{patterns[pattern]};
        const Kinds here(layouts_, fixed_seconds_, alone, makespan);
        const Certificate area =
            certify(here, alone, fixed_seconds_, makespan, priced_.lengths,
                    {.open = {open, open}, .work = {work, work}, .rights = {}});
        for (const Role role : {kAnchor, kOther}) {
            const std::size_t place = place_of(pattern, role);
            for (const Certificate::Price& price : area.prices[role]) {
                if (std::isfinite(price.price)) {
                    chosen.insert(kinds.find(place, here.kind(price.kind).layout));
                }
            }
            for (std::size_t layout = 0; layout < layouts_.size(); ++layout) {
                if (remembered_.contains(remembered(patterns[pattern], role, layout))) {
                    chosen.insert(kinds.find(place, layout));
                }
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
    for (const std::vector<Certificate::Price>& place : certificate.prices) {
        for (std::size_t i = 0; i < place.size(); ++i) {
            if (place[i].price < program.price(i) * (1 - 1e-6) && !program.has(place[i].kind)) {
                broken.insert(place[i].kind);
            }
        }
    }
    std::vector<Rule> rules;
    for (const std::size_t kind : broken) {
        add_rules(kinds, kind, rules);
    }
    return rules;
}

Trial Search::try_makespan(double makespan) {
    const std::vector<Pattern> patterns = this->patterns(makespan);
    const Kinds kinds(layouts_, fixed_seconds_, patterns, makespan);
    PriceProgram program(kinds, patterns, fixed_seconds_, makespan, priced_);
    std::vector<Rule> rules = first_rules(kinds, patterns, makespan);
    Trial trial;
    double at_most = 0;
    for (int round = 0; round < kMostRounds && !rules.empty(); ++round) {
        program.add(rules);
        if (!program.solve()) {
            break;
        }
        at_most = program.total() / ranks_;
        if (at_most <= 1) {
            break;  // more rules can only lower the total
        }
        const Multipliers multipliers = program.multipliers();
        const Certificate rough =
            certify(kinds, patterns, fixed_seconds_, makespan, priced_.lengths, multipliers);
        if (rough.total > ranks_ * trial.filled) {
            const Certificate exact =
                certify(kinds, patterns, fixed_seconds_, makespan, exact_, multipliers);
            trial.filled = std::max(trial.filled, exact.total / ranks_);
        }
        const bool is_solved = rough.total >= program.total() * (1 - kGain / 2);
        const bool is_near = trial.filled > 1 + kRounding && at_most < 1 + 2 * kGain;
        if (is_solved || is_near) {
            break;
        }
        rules = broken_rules(kinds, program, rough);
    }
    trial.is_impossible = trial.filled > 1 + kRounding;
    if (trial.filled <= 0) {
        trial.filled = at_most;
    }
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        if (program.has(kind)) {
            const std::size_t place = kinds.kind(kind).place;
            remembered_.insert(
                remembered(patterns[place / kRoles], place % kRoles, kinds.kind(kind).layout));
        }
    }
    return trial;
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
    double next = impossible * (1 + kFirstStep);
    int too_long = 0;  // how many tries in a row
    while (high - impossible > kPrecision * impossible && next > impossible * (1 + kGain)) {
        next = std::min(next, std::max(high * (1 - kGain), (impossible + high) / 2));
        const Trial trial = search.try_makespan(next);
        (trial.is_impossible ? impossible : high) = next;
        too_long = trial.is_impossible ? 0 : too_long + 1;
        // Prices are nearly as 1 / makespan; where they are not, halving is sure to end.
        const double guess = next * trial.filled * (1 - kGain / 2);
        const bool is_between = guess > impossible * (1 + kGain) && guess < high;
        next = trial.is_impossible || (is_between && too_long < kMostTooLong)
                   ? guess
                   : (impossible + high) / 2;
    }
    return std::max(cheap, once + impossible * (1 - kRounding));
}

}  // namespace dcp::plan::lp
