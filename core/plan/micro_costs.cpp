#include "core/plan/micro_costs.hpp"

#include <algorithm>
#include <cmath>

namespace dcp::plan {

namespace {

// Most tokens of this piece that fit, `least` or fewer where none of them does. Exactly what fits()
// says, found from the coefficients.
std::int64_t tokens_held(
    const Problem& problem, const CostPiece& piece, std::int64_t least, int degree, int depth) {
    const LinearCost& line = piece.line;
    const double room = problem.memory_budget_bytes - line.static_bytes;
    if (room < 0) {
        return 0;
    }
    const auto most = static_cast<double>(piece.most_tokens);
    const double tokens = line.token_bytes > 0 ? room / line.token_bytes : most;
    auto held = static_cast<std::int64_t>(std::min(tokens, most));
    while (held > least && !fits(problem, Load{held, 0}, degree, depth)) {
        --held;
    }
    return held;
}

// Where a token costs least, what squares cost aside: at the end of a level.
std::int64_t thriftiest(const std::vector<MicroCosts::Level>& levels) {
    std::int64_t tokens = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const MicroCosts::Level& level : levels) {
        const double here =
            level.token_seconds + level.fixed_seconds / static_cast<double>(level.most_tokens);
        if (here <= least) {
            least = here;
            tokens = level.most_tokens;
        }
    }
    return tokens;
}

}  // namespace

std::vector<MicroCosts::Level> levels_at(const Problem& problem,
                                         int degree,
                                         int depth,
                                         std::int64_t least_tokens) {
    std::vector<MicroCosts::Level> levels;
    for (const CostPiece& piece : problem.cost->pieces(degree, depth)) {
        const std::int64_t held = tokens_held(problem, piece, least_tokens, degree, depth);
        if (held > least_tokens) {
            levels.push_back({.depth = depth,
                              .most_tokens = held,
                              .fixed_seconds = piece.line.fixed_seconds,
                              .token_seconds = piece.line.token_seconds,
                              .squared_seconds = piece.line.squared_token_seconds});
            least_tokens = held;
        }
    }
    return levels;
}

MicroCosts::MicroCosts(const Problem& problem) : degrees_(problem.degrees) {
    for (const int degree : degrees_) {
        std::vector<Level> levels;
        for (int depth = 0; depth <= problem.max_recompute_layers(); ++depth) {
            const std::int64_t before = levels.empty() ? 0 : levels.back().most_tokens;
            for (const Level& level : levels_at(problem, degree, depth, before)) {
                levels.push_back(level);
            }
        }
        most_tokens_.push_back(levels.empty() ? 0 : levels.back().most_tokens);
        thrifty_tokens_.push_back(thriftiest(levels));
        levels_.push_back(std::move(levels));
    }
}

MicroCosts::MicroCosts(const MicroCosts& all, const std::vector<int>& degrees) : degrees_(degrees) {
    std::size_t index = 0;
    for (const int degree : degrees) {
        while (all.degree(index) != degree) {
            ++index;
        }
        levels_.push_back(all.levels(index));
        most_tokens_.push_back(all.most_tokens(index));
        thrifty_tokens_.push_back(all.thrifty_tokens(index));
    }
}

}  // namespace dcp::plan
