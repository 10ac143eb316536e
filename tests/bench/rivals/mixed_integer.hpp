// A mixed integer program for CBC: least objective, rows as limits on weighted sums.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace dcp::bench {

class MixedInteger {
public:
    MixedInteger();
    ~MixedInteger();

    // All variables are at least 0. Returns the index.
    int add_variable(double most, double cost, bool is_whole);
    void add_row(double least, double most, const std::vector<std::pair<int, double>>& terms);

    // The best values found within the limit, starting from `start` (one value a variable, or
    // empty); nothing when none was found.
    std::optional<std::vector<double>> solve(double limit_seconds,
                                             const std::vector<double>& start);

private:
    struct Solver;
    std::unique_ptr<Solver> solver_;
};

}  // namespace dcp::bench
