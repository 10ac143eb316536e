#include "core/plan/micro_costs.hpp"

#include <algorithm>
#include <cmath>

namespace dcp::plan {

namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 50;

// Exactly what fits() says, found from the coefficients.
std::int64_t tokens_held(const Problem& problem, const LinearCost& line, int degree, int depth) {
    const double room = problem.memory_budget_bytes - line.static_bytes;
    if (room < 0) {
        return 0;
    }
    const double tokens = line.token_bytes > 0 ? room / line.token_bytes : kMostTokens;
    auto held = static_cast<std::int64_t>(std::min<double>(tokens, kMostTokens));
    while (held > 0 && !fits(problem, Load{held, 0}, degree, depth)) {
        --held;
    }
    return held;
}

}  // namespace

MicroCosts::MicroCosts(const Problem& problem) : degrees_(problem.degrees) {
    for (const int degree : degrees_) {
        std::vector<Level> levels;
        for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
            const LinearCost line = problem.cost->linear(degree, depth);
            const std::int64_t held = tokens_held(problem, line, degree, depth);
            if (held > (levels.empty() ? 0 : levels.back().most_tokens)) {
                levels.push_back({.depth = depth,
                                  .most_tokens = held,
                                  .fixed_seconds = line.fixed_seconds,
                                  .token_seconds = line.token_seconds,
                                  .squared_seconds = line.squared_token_seconds});
            }
        }
        levels_.push_back(std::move(levels));
    }
}

std::int64_t MicroCosts::most_tokens(std::size_t index) const {
    return levels_[index].empty() ? 0 : levels_[index].back().most_tokens;
}

}  // namespace dcp::plan
