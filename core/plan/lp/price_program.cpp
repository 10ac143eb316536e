#include "core/plan/lp/price_program.hpp"

#include <algorithm>
#include <cmath>

#include <ClpSimplex.hpp>

namespace dcp::plan::lp {

namespace {

constexpr int kMostIterations = 200'000;
constexpr int kMostFromBasis = 1000;
constexpr int kFewRows = 10;          // one in so many
constexpr int kAlwaysPerturbed = 50;  // as the solver counts
constexpr double kNoLimit = std::numeric_limits<double>::max();

// How many sequences of this length one micro-batch can hold.
double most_together(const Layout& layout, double tokens, double count) {
    return std::min(count, std::floor(layout.most_tokens / tokens));
}

// Rows or columns in the making, one after the other as the solver wants them.
class Entries {
public:
    void begin() { starts_.push_back(static_cast<CoinBigIndex>(places_.size())); }
    void add(int place, double value) {
        if (value != 0) {
            places_.push_back(place);
            values_.push_back(value);
        }
    }
    int count() const { return static_cast<int>(starts_.size()); }

    // Each at most `most`, which has one number a row.
    void add_rows_to(ClpSimplex& model, const std::vector<double>& most) {
        const std::vector<double> least(starts_.size(), -kNoLimit);
        const int rows = count();
        begin();
        model.addRows(rows, least.data(), most.data(), starts_.data(), places_.data(),
                      values_.data());
    }
    void add_rows_to(ClpSimplex& model) {
        add_rows_to(model, std::vector<double>(starts_.size(), 0.0));
    }
    // Each from 0 up, worth nothing by itself.
    void add_columns_to(ClpSimplex& model) {
        const std::vector<double> zeros(starts_.size(), 0.0);
        const std::vector<double> most(starts_.size(), kNoLimit);
        const int columns = count();
        begin();
        model.addColumns(columns, zeros.data(), most.data(), zeros.data(), starts_.data(),
                         places_.data(), values_.data());
    }

private:
    std::vector<CoinBigIndex> starts_;
    std::vector<int> places_;
    std::vector<double> values_;
};

}  // namespace

// Columns: prices, then open and work of every place (work in units of 1 / T), then those of kinds.
// Rows: the corners of patterns, then those of kinds (their rights) and rules as they come.
struct PriceProgram::Solver {
    ClpSimplex model;
    int solved_rows = 0;  // of the last basis
};

PriceProgram::PriceProgram(const Kinds& kinds,
                           const std::vector<Pattern>& patterns,
                           double fixed_seconds,
                           double makespan,
                           const Priced& priced)
    : kinds_(kinds),
      priced_(priced),
      makespan_(makespan),
      num_places_(kRoles * patterns.size()),
      solver_(std::make_unique<Solver>()) {
    ClpSimplex& model = solver_->model;
    model.setLogLevel(0);
    model.setMaximumIterations(kMostIterations);
    model.setOptimizationDirection(-1);
    model.setPerturbation(kAlwaysPerturbed);  // many prices are as good as others
    const auto num_prices = static_cast<int>(priced.lengths.tokens.size());
    model.resize(0, num_prices + 2 * static_cast<int>(num_places_));
    for (int length = 0; length < num_prices; ++length) {
        model.setObjectiveCoefficient(length,
                                      priced.lengths.counts[static_cast<std::size_t>(length)]);
    }
    Entries rows;
    std::vector<double> most;
    for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
        const int anchor = num_prices + 2 * static_cast<int>(place_of(pattern, kAnchor));
        const int other = num_prices + 2 * static_cast<int>(place_of(pattern, kOther));
        for (const auto& [others, seconds] : corners(patterns[pattern], fixed_seconds, makespan)) {
            rows.begin();
            if (patterns[pattern].anchor) {
                rows.add(anchor, 1);
                rows.add(anchor + 1, std::max(0.0, seconds - fixed_seconds) / makespan);
            }
            rows.add(other, others);
            rows.add(other + 1,
                     std::max(0.0, makespan - seconds - others * fixed_seconds) / makespan);
            most.push_back(1);
        }
        if (fixed_seconds <= 0 && patterns[pattern].stands_for_more) {
            rows.begin();  // any number of micro-batches: opening one earns nothing
            rows.add(other, 1);
            most.push_back(0);
        }
    }
    rows.add_rows_to(model, most);
}

PriceProgram::~PriceProgram() = default;

// The columns and the right of kinds that are new, the own parts of lengths that are new to a kind.
void PriceProgram::add_columns(const std::vector<Rule>& rules) {
    ClpSimplex& model = solver_->model;
    const auto num_prices = static_cast<int>(priced_.lengths.tokens.size());
    Entries rows;
    Entries parts;
    for (const auto& [index, length] : rules) {
        const auto [place, is_new] = columns_.try_emplace(index);
        if (!is_new) {
            continue;
        }
        place->second.first_part = model.numberColumns() + parts.count();
        place->second.right_row = model.numberRows() + rows.count();
        const Layout& layout = kinds_.layout(index);
        const int open = num_prices + 2 * static_cast<int>(kinds_.kind(index).place);
        rows.begin();
        rows.add(open, -layout.degree);
        rows.add(open + 1, -layout.degree * layout.extra_seconds / makespan_);
        for (std::size_t part = 0; part < Shares::kCount; ++part) {
            parts.begin();
            parts.add(place->second.right_row, 1);
        }
    }
    rows.add_rows_to(model);
    parts.add_columns_to(model);

    Entries own;
    for (const auto& [index, length] : rules) {
        Columns& columns = columns_.at(index);
        if (length < priced_.first_own ||
            !columns.own.emplace(length, model.numberColumns() + own.count()).second) {
            continue;
        }
        own.begin();
        own.add(columns.right_row,
                most_together(kinds_.layout(index), priced_.lengths.tokens[length],
                              priced_.lengths.counts[length]));
    }
    own.add_columns_to(model);
}

void PriceProgram::add(const std::vector<Rule>& rules) {
    std::vector<Rule> added;
    for (const Rule& rule : rules) {
        if (rules_.emplace(rule, 0).second) {
            added.push_back(rule);
        }
    }
    add_columns(added);
    const auto num_prices = static_cast<int>(priced_.lengths.tokens.size());
    Entries rows;
    for (const auto& [index, length] : added) {
        const Size size = size_at(priced_.lengths, length);
        const Columns& columns = columns_.at(index);
        rows.begin();
        rows.add(static_cast<int>(length), 1);
        rows.add(num_prices + 2 * static_cast<int>(kinds_.kind(index).place) + 1,
                 -kinds_.rank_seconds(index, size) / makespan_);
        const Shares shares = kinds_.shares(index, size);
        for (std::size_t part = 0; part < Shares::kCount; ++part) {
            rows.add(columns.first_part + static_cast<int>(part), -shares.parts[part]);
        }
        if (const auto own = columns.own.find(length); own != columns.own.end()) {
            rows.add(own->second, -1);
        }
    }
    rows.add_rows_to(solver_->model);
}

bool PriceProgram::solve() {
    ClpSimplex& model = solver_->model;
    // After a few new rows the last basis is often near the next. Where it is not, the program is
    // solved sooner from the start, where presolve makes it much smaller.
    const int added = model.numberRows() - solver_->solved_rows;
    const bool are_few = added * kFewRows < model.numberRows();
    if (are_few) {
        model.setMaximumIterations(kMostFromBasis);
        model.dual();
        model.setMaximumIterations(kMostIterations);
    }
    if (!are_few || !model.isProvenOptimal()) {
        model.allSlackBasis(true);
        model.initialDualSolve();
    }
    // What is optimal only as the solver has scaled it may be far from it: once more from the
    // start.
    if (model.secondaryStatus() != 0) {
        model.initialPrimalSolve();
    }
    solver_->solved_rows = model.numberRows();
    return model.isProvenOptimal();
}

double PriceProgram::total() const {
    return solver_->model.objectiveValue();
}

double PriceProgram::price(std::size_t length) const {
    return solver_->model.primalColumnSolution()[length];
}

Multipliers PriceProgram::multipliers() const {
    const double* values = solver_->model.primalColumnSolution();
    const auto at = [values](std::size_t column) { return std::max(0.0, values[column]); };
    Multipliers multipliers;
    const std::size_t num_prices = priced_.lengths.tokens.size();
    for (std::size_t place = 0; place < num_places_; ++place) {
        multipliers.open.push_back(at(num_prices + 2 * place));
        multipliers.work.push_back(at(num_prices + 2 * place + 1) / makespan_);
    }
    for (const auto& [index, columns] : columns_) {
        RightShares& right = multipliers.rights[index];
        for (std::size_t part = 0; part < Shares::kCount; ++part) {
            right.by_part[part] = at(static_cast<std::size_t>(columns.first_part) + part);
        }
        for (const auto& [length, column] : columns.own) {
            const double value = at(static_cast<std::size_t>(column));
            if (value > 0) {
                right.own[size_at(priced_.lengths, length)] = value;
            }
        }
    }
    return multipliers;
}

}  // namespace dcp::plan::lp
