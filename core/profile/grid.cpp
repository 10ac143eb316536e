#include "core/profile/grid.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "core/plan/measured_model.hpp"

namespace dcp::profile {

namespace {

constexpr std::int64_t kFewestRankTokens = 32;
constexpr std::int64_t kStep = 4;

std::int64_t most_tokens(const GridLimits& limits, int degree) {
    return std::max<std::int64_t>(degree,
                                  std::min(limits.rank_tokens * degree, limits.batch_tokens));
}

// As few sequences as are allowed, and many short ones: not so short that what a sequence costs by
// itself, which costs do not know, outweighs what it saves in squares.
std::vector<Request> shapes(std::int64_t tokens,
                            const plan::Strategy& strategy,
                            const GridLimits& limits) {
    constexpr std::int64_t kShort = 8;      // times shorter,
    constexpr std::int64_t kShortest = 32;  // and of so many tokens
    const std::int64_t shortest =
        std::clamp<std::int64_t>(most_tokens(limits, strategy.degree()) / kShort, 1, kShortest);
    const std::int64_t few = (tokens + limits.longest_tokens - 1) / limits.longest_tokens;
    const std::int64_t many = std::min(tokens / shortest, kShort * few);
    std::vector<Request> made{{.tokens = tokens, .sequences = few, .strategy = strategy}};
    if (many > few) {
        made.push_back({.tokens = tokens, .sequences = many, .strategy = strategy});
    }
    return made;
}

using Points = std::vector<plan::ProfilePoint>;

Points of_strategy(std::span<const plan::ProfilePoint> points, const plan::Strategy& strategy) {
    Points found;
    std::copy_if(points.begin(), points.end(), std::back_inserter(found),
                 [&](const plan::ProfilePoint& point) { return point.strategy == strategy; });
    return found;
}

// Largest error at the points of this many tokens of a curve that was not told of them.
double error_without(const Points& points, std::int64_t tokens, int ranks_per_node) {
    plan::Profile others{.name = "grid", .ranks_per_node = ranks_per_node};
    Points left_out;
    for (const plan::ProfilePoint& point : points) {
        (point.tokens == tokens ? left_out : others.points).push_back(point);
    }
    const int degree = points.front().strategy.degree();
    const plan::MeasuredModel model(others, degree, ranks_per_node);
    double worst = 0;
    for (const plan::ProfilePoint& point : left_out) {
        const double said =
            model.cost({point.tokens, point.squared_tokens}, point.strategy, 0).seconds();
        const double measured = point.forward_seconds + point.backward_seconds;
        worst = std::max(worst, std::fabs(said / std::max(measured, 1e-12) - 1));
    }
    return worst;
}

struct Gap {
    std::int64_t from = 0;
    std::int64_t to = 0;
    double error = 0;

    std::int64_t middle() const {
        return std::llround(std::sqrt(static_cast<double>(from) * static_cast<double>(to)));
    }
    // Points nearer than a factor of 1.4 tell more of the noise than of the curve.
    bool is_wide() const { return 10 * middle() >= 14 * from && 10 * to >= 14 * middle(); }
};

std::vector<Gap> gaps(const Points& points) {
    std::set<std::int64_t> distinct;
    for (const plan::ProfilePoint& point : points) {
        distinct.insert(point.tokens);
    }
    const std::vector<std::int64_t> tokens(distinct.begin(), distinct.end());
    std::vector<Gap> found;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
        found.push_back({.from = tokens[i - 1], .to = tokens[i]});
    }
    if (found.size() == 1) {
        found.front().error = 1;  // nothing is known of what lies between
    }
    const plan::ProfilePoint& any = points.front();
    const int ranks_per_node = any.link == plan::LinkClass::kNetwork ? 1 : any.strategy.degree();
    for (std::size_t i = 1; i < found.size(); ++i) {
        const double error = error_without(points, tokens[i], ranks_per_node);
        const auto length = static_cast<double>(tokens[i + 1] - tokens[i - 1]);
        for (Gap* gap : {&found[i - 1], &found[i]}) {
            const double share = static_cast<double>(gap->to - gap->from) / length;
            gap->error = std::max(gap->error, error * share * share);
        }
    }
    return found;
}

}  // namespace

std::vector<Request> base_grid(const GridLimits& limits) {
    std::vector<Request> grid;
    for (const plan::Strategy& strategy : limits.strategies) {
        const int degree = strategy.degree();
        std::vector<std::int64_t> tokens;
        for (std::int64_t next = most_tokens(limits, degree);
             tokens.empty() || next >= kFewestRankTokens * degree; next /= kStep) {
            tokens.push_back(next);
        }
        std::vector<Request> curve;
        for (const std::int64_t each : tokens) {
            for (const Request& request : shapes(each, strategy, limits)) {
                curve.push_back(request);
            }
        }
        // The longest sequence alone attends most for its tokens.
        if (limits.longest_tokens < tokens.front() && limits.longest_tokens >= tokens.back()) {
            curve.push_back({.tokens = limits.longest_tokens, .strategy = strategy});
        }
        std::ranges::stable_sort(curve, {}, &Request::tokens);
        const auto copies = std::ranges::unique(curve);
        curve.erase(copies.begin(), copies.end());
        std::ranges::copy(curve, std::back_inserter(grid));
    }
    return grid;
}

std::vector<Request> missing_requests(std::span<const plan::ProfilePoint> points,
                                      const GridLimits& limits) {
    std::vector<Request> missing;
    for (const Request& request : base_grid(limits)) {
        const Points known = of_strategy(points, request.strategy);
        const auto is_reached = [&](auto&& value_of) {
            return std::ranges::any_of(known, [&](const plan::ProfilePoint& point) {
                return value_of(plan::Load{point.tokens, point.squared_tokens}) >=
                       value_of(request.load());
            });
        };
        const auto mean_length = [](const plan::Load& load) {
            return load.squared_tokens / static_cast<double>(load.tokens);
        };
        if (!is_reached(std::mem_fn(&plan::Load::tokens)) || !is_reached(mean_length)) {
            missing.push_back(request);
        }
    }
    return missing;
}

std::vector<Request> next_refinement(std::span<const plan::ProfilePoint> points,
                                     const GridLimits& limits,
                                     double tolerance) {
    Gap worst{.error = tolerance};
    const plan::Strategy* where = nullptr;
    for (const plan::Strategy& strategy : limits.strategies) {
        const Points known = of_strategy(points, strategy);
        if (known.empty()) {
            continue;
        }
        for (const Gap& gap : gaps(known)) {
            if (gap.is_wide() && gap.error > worst.error) {
                worst = gap;
                where = &strategy;
            }
        }
    }
    return where == nullptr ? std::vector<Request>{} : shapes(worst.middle(), *where, limits);
}

void CurvePace::add(std::int64_t tokens, double seconds) {
    const double for_each = seconds / static_cast<double>(tokens);
    growth_ = for_each_ > 0 ? std::max(1.0, for_each / for_each_) : 1;
    for_each_ = for_each;
}

double CurvePace::expected(std::int64_t tokens) const {
    return static_cast<double>(tokens) * for_each_ * growth_;
}

}  // namespace dcp::profile
