// The linear program of the LP bound, and its certificate. Written down lazily: a rule that no
// price comes near need not be in it.
//
// Variables, for a makespan T and patterns of ranks (two places each: the anchor's micro-batch, if
// there is one, and the others):
//   price of each length; lam, mu of each place: what a rank earns for opening a micro-batch there
//   and for a second of work in it. With the anchor's for s seconds and n others, a rank earns
//   lam_a + (s - fixed) mu_a + n lam + (T - s - n fixed) mu <= 1;
//   for a kind (place, p, k): how the right to open one, p lam + p extra mu, is shared by its
//   sequences: by the parts of `Shares` and, for the longest lengths, as a part of their own.
// Rules: price(l) <= mu rank_seconds(l) + what l pays of the right, for each kind that holds l.
// Greatest: the sum of all prices.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/plan/lp/micro_batch_kinds.hpp"

namespace dcp::plan::lp {

// The right to open a micro-batch of one kind, shared.
struct RightShares {
    std::array<double, Shares::kCount> by_part{};
    std::map<Size, double> own;  // what one sequence of this length pays
};

struct Multipliers {
    std::vector<double> open;                   // lam of every place
    std::vector<double> work;                   // mu of every place, a second
    std::map<std::size_t, RightShares> rights;  // by kind; others share by tokens or by time
};

// What is priced: lengths, how many of each, and from where on each has a part of its own.
struct Priced {
    Lengths lengths;
    std::size_t first_own = 0;
};

// A rule: the price of a length in a kind.
using Rule = std::pair<std::size_t, std::size_t>;  // kind, length

class PriceProgram {
public:
    PriceProgram(const Kinds& kinds,
                 const std::vector<Pattern>& patterns,
                 double fixed_seconds,
                 double makespan,
                 const Priced& priced);
    ~PriceProgram();

    void add(const std::vector<Rule>& rules);  // those that are not in it already
    bool solve();                              // false: the solver gave up
    double total() const;  // of the last solution; rules left out could lower it
    double price(std::size_t length) const;
    Multipliers multipliers() const;
    bool has(std::size_t kind) const { return columns_.contains(kind); }

private:
    struct Solver;
    struct Columns {  // of a kind
        int first_part = 0;
        int right_row = 0;
        std::map<std::size_t, int> own;  // length index -> column
    };
    void add_columns(const std::vector<Rule>& rules);

    const Kinds& kinds_;
    const Priced& priced_;
    double makespan_;
    std::size_t num_places_;
    std::unique_ptr<Solver> solver_;
    std::map<std::size_t, Columns> columns_;
    std::map<Rule, int> rules_;
};

// Prices that are right whatever the multipliers are: these are scaled down until they keep their
// rules, and each length is priced by its cheapest kind.
struct Certificate {
    struct Price {
        double price = std::numeric_limits<double>::infinity();
        std::size_t kind = 0;  // where the price is finite
    };
    double total = 0;                        // of the prices of all sequences
    std::vector<std::vector<Price>> prices;  // by place, then length: of its cheapest kind there
};

Certificate certify(const Kinds& kinds,
                    const std::vector<Pattern>& patterns,
                    double fixed_seconds,
                    double makespan,
                    const Lengths& lengths,
                    const Multipliers& multipliers);

}  // namespace dcp::plan::lp
