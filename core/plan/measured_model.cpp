#include "core/plan/measured_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::plan {

namespace {

std::string name_of(const Strategy& strategy, LinkClass link) {
    const char* where = link == LinkClass::kNetwork ? "over the network" : "inside a node";
    return strategy.degree() == 1
               ? "one rank"
               : fmt::format("SP degree {} ({} Ulysses x {} ring) {}", strategy.degree(),
                             strategy.ulysses, strategy.ring, where);
}

using ByTokens = std::map<std::int64_t, std::vector<const ProfilePoint*>>;

double mean_of(const std::vector<const ProfilePoint*>& points, double ProfilePoint::*field) {
    double sum = 0;
    for (const ProfilePoint* point : points) {
        sum += point->*field;
    }
    return sum / static_cast<double>(points.size());
}

// Seconds a squared token: by least squares over the differences between micro-batches of as many
// tokens. Never negative.
double squared_rate(const ByTokens& groups, double ProfilePoint::*seconds) {
    double product = 0;
    double square = 0;
    for (const auto& [tokens, points] : groups) {
        const double mean_squared = mean_of(points, &ProfilePoint::squared_tokens);
        const double mean_seconds = mean_of(points, seconds);
        for (const ProfilePoint* point : points) {
            const double off = point->squared_tokens - mean_squared;
            product += off * (point->*seconds - mean_seconds);
            square += off * off;
        }
    }
    return square > 0 ? std::max(0.0, product / square) : 0;
}

bool tells_squares(const ByTokens& groups) {
    return std::any_of(groups.begin(), groups.end(), [](const auto& group) {
        const double first = group.second.front()->squared_tokens;
        return std::any_of(group.second.begin(), group.second.end(),
                           [first](const auto* point) { return point->squared_tokens != first; });
    });
}

double largest(const std::vector<const ProfilePoint*>& points, double ProfilePoint::*bytes) {
    double most = 0;
    for (const ProfilePoint* point : points) {
        most = std::max(most, point->*bytes);
    }
    return most;
}

struct Point {
    double tokens;
    double value;
};

struct Straight {
    double fixed = 0;
    double slope = 0;
};

Straight through(const Point& a, const Point& b) {
    const double slope = (b.value - a.value) / (b.tokens - a.tokens);
    return {.fixed = a.value - slope * a.tokens, .slope = slope};
}

// The line of each piece: before the first knot, between knots, behind the last.
std::vector<Straight> straights(const std::vector<Point>& knots) {
    std::vector<Straight> lines{{.fixed = knots.front().value, .slope = 0}};
    double steepest = knots.back().value / knots.back().tokens;
    for (std::size_t i = 1; i < knots.size(); ++i) {
        lines.push_back(through(knots[i - 1], knots[i]));
    }
    steepest = std::max(steepest, lines.back().slope);
    lines.push_back(
        {.fixed = knots.back().value - steepest * knots.back().tokens, .slope = steepest});
    return lines;
}

}  // namespace

MeasuredModel::MeasuredModel(Profile profile, int ranks, int ranks_per_node)
    : profile_(std::move(profile)), ranks_per_node_(ranks_per_node), ranks_(ranks) {
    if (profile_.points.empty()) {
        throw PlanError(fmt::format("profile '{}' holds no point", profile_.name));
    }
    if (!profile_.speeds.empty() && profile_.speeds.size() != static_cast<std::size_t>(ranks)) {
        throw PlanError(fmt::format("profile '{}' has speeds of {} ranks, and there are {}",
                                    profile_.name, profile_.speeds.size(), ranks));
    }
    static_bytes_ = profile_.replicated_bytes + profile_.sharded_bytes / ranks;
    std::vector<ProfilePoint> points = profile_.points;
    const auto is_before = [](const ProfilePoint& a, const ProfilePoint& b) {
        return std::tuple(a.strategy.ulysses, a.strategy.ring, a.link) <
               std::tuple(b.strategy.ulysses, b.strategy.ring, b.link);
    };
    std::sort(points.begin(), points.end(), is_before);
    for (auto begin = points.begin(); begin != points.end();) {
        const auto end = std::find_if(begin, points.end(), [&](const ProfilePoint& point) {
            return is_before(*begin, point);
        });
        curves_.push_back(fit({begin, end}));
        for (int depth = 0; depth <= profile_.layers; ++depth) {
            curves_.back().pieces.push_back(pieces_of(curves_.back(), depth));
        }
        begin = end;
    }
}

MeasuredModel::Curve MeasuredModel::fit(const std::vector<ProfilePoint>& points) {
    ByTokens groups;
    for (const ProfilePoint& point : points) {
        groups[point.tokens].push_back(&point);
    }
    Curve curve{.strategy = points.front().strategy, .link = points.front().link};
    if (!tells_squares(groups)) {
        throw PlanError(fmt::format(
            "profile '{}': {}: measure some number of tokens twice, as one sequence and as "
            "several: nothing else tells what squared lengths cost",
            profile_.name, name_of(curve.strategy, curve.link)));
    }
    curve.squared_token_seconds = {
        .forward = squared_rate(groups, &ProfilePoint::forward_seconds),
        .backward = squared_rate(groups, &ProfilePoint::backward_seconds),
        .recompute = squared_rate(groups, &ProfilePoint::recompute_seconds)};
    Knot last;
    curve.least_mean_length =
        points.front().squared_tokens / static_cast<double>(points.front().tokens);
    for (const auto& [tokens, group] : groups) {
        const double squared = mean_of(group, &ProfilePoint::squared_tokens);
        const auto rest = [&](double ProfilePoint::*seconds, double rate, double before) {
            return std::max(before, mean_of(group, seconds) - rate * squared);
        };
        const Times& rates = curve.squared_token_seconds;
        last = {.tokens = tokens,
                .seconds = {.forward = rest(&ProfilePoint::forward_seconds, rates.forward,
                                            last.seconds.forward),
                            .backward = rest(&ProfilePoint::backward_seconds, rates.backward,
                                             last.seconds.backward),
                            .recompute = rest(&ProfilePoint::recompute_seconds, rates.recompute,
                                              last.seconds.recompute)},
                .kept_bytes = std::max(last.kept_bytes, largest(group, &ProfilePoint::kept_bytes)),
                .checkpoint_bytes = std::max(last.checkpoint_bytes,
                                             largest(group, &ProfilePoint::checkpoint_bytes)),
                .working_bytes =
                    std::max(last.working_bytes, largest(group, &ProfilePoint::working_bytes))};
        curve.knots.push_back(last);
        for (const ProfilePoint* point : group) {
            const double mean = point->squared_tokens / static_cast<double>(tokens);
            curve.least_mean_length = std::min(curve.least_mean_length, mean);
            curve.most_mean_length = std::max(curve.most_mean_length, mean);
            const double measured = point->forward_seconds + point->backward_seconds;
            const double said = last.seconds.forward + last.seconds.backward +
                                (rates.forward + rates.backward) * point->squared_tokens;
            if (measured > 0) {
                worst_error_ = std::max(worst_error_, std::abs(said / measured - 1));
            }
        }
    }
    return curve;
}

const MeasuredModel::Curve* MeasuredModel::find(const Strategy& strategy) const {
    const LinkClass link = link_class(strategy.degree(), ranks_per_node_);
    for (const Curve& curve : curves_) {
        if (curve.strategy == strategy && curve.link == link) {
            return &curve;
        }
    }
    return nullptr;
}

const MeasuredModel::Curve& MeasuredModel::curve(const Strategy& strategy) const {
    const Curve* found = find(strategy);
    if (found == nullptr) {
        throw PlanError(fmt::format(
            "profile '{}' has no measurement of {}: measure it, or allow only SP degrees that were",
            profile_.name, name_of(strategy, link_class(strategy.degree(), ranks_per_node_))));
    }
    return *found;
}

std::vector<int> MeasuredModel::degrees() const {
    std::vector<int> degrees;
    for (int degree = 1; degree <= ranks_; ++degree) {
        if (find(preferred_strategy(degree, profile_.heads)) != nullptr) {
            degrees.push_back(degree);
        }
    }
    return degrees;
}

std::vector<CostPiece> MeasuredModel::pieces_of(const Curve& curve, int recompute_layers) const {
    const double layers = profile_.layers;
    const double again = recompute_layers;
    const double degree = curve.strategy.degree();
    const auto sum = [&](const Times& times) {
        return layers * (times.forward + times.backward) + again * times.recompute;
    };
    std::vector<Point> seconds;
    std::vector<Point> bytes;
    for (const Knot& knot : curve.knots) {
        const auto tokens = static_cast<double>(knot.tokens);
        seconds.push_back({tokens, sum(knot.seconds)});
        bytes.push_back({tokens, kept_by_layers(profile_.layers, recompute_layers, knot.kept_bytes,
                                                knot.checkpoint_bytes) +
                                     knot.working_bytes});
    }
    const std::vector<Straight> time_lines = straights(seconds);
    const std::vector<Straight> byte_lines = straights(bytes);
    std::vector<CostPiece> pieces;
    for (std::size_t i = 0; i < time_lines.size(); ++i) {
        pieces.push_back(
            {.most_tokens = i < curve.knots.size() ? curve.knots[i].tokens : kUnboundedTokens,
             .line = {.fixed_seconds = profile_.fixed_seconds + time_lines[i].fixed,
                      .token_seconds = profile_.token_seconds / degree + time_lines[i].slope,
                      .squared_token_seconds = sum(curve.squared_token_seconds),
                      .static_bytes = static_bytes_ + byte_lines[i].fixed,
                      .token_bytes = profile_.token_bytes / degree + byte_lines[i].slope}});
    }
    return pieces;
}

std::vector<CostPiece> MeasuredModel::pieces(int degree, int recompute_layers) const {
    return curve(preferred_strategy(degree, profile_.heads))
        .pieces[static_cast<std::size_t>(recompute_layers)];
}

StepCost MeasuredModel::cost(const Load& load,
                             const Strategy& strategy,
                             int recompute_layers) const {
    const std::vector<CostPiece>& pieces =
        curve(strategy).pieces[static_cast<std::size_t>(recompute_layers)];
    const auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const CostPiece& one) {
        return load.tokens <= one.most_tokens;
    });
    const LinearCost& line = piece->line;
    // Exchanges were measured with the layer and cannot be told from it. What does not grow with
    // the load does not depend on a rank's speed either.
    const double fixed = std::max(0.0, line.fixed_seconds);
    return {.fixed_seconds = fixed,
            .compute_seconds = line.seconds(load) - fixed,
            .communication_seconds = 0,
            .peak_bytes = line.bytes(load)};
}

// The lines of all pieces from below: through the origin of seconds, or lower.
LinearCost MeasuredModel::linear(int degree, int recompute_layers) const {
    const std::vector<CostPiece> pieces = this->pieces(degree, recompute_layers);
    LinearCost least = pieces.front().line;
    least.fixed_seconds = profile_.fixed_seconds;
    least.static_bytes = static_bytes_;
    double begin = 1;  // tokens
    least.token_seconds = std::numeric_limits<double>::infinity();
    least.token_bytes = std::numeric_limits<double>::infinity();
    for (const CostPiece& piece : pieces) {
        // A line over a line with a fixed part has its least ratio at one of the ends.
        for (const double tokens : {begin, static_cast<double>(piece.most_tokens)}) {
            const LinearCost& line = piece.line;
            least.token_seconds = std::min(
                least.token_seconds,
                (line.fixed_seconds - profile_.fixed_seconds) / tokens + line.token_seconds);
            least.token_bytes = std::min(
                least.token_bytes, (line.static_bytes - static_bytes_) / tokens + line.token_bytes);
        }
        begin = static_cast<double>(piece.most_tokens);
    }
    return least;
}

double MeasuredModel::squared_tokens(const Sequence& sequence) const {
    return attention_pairs(sequence) + (sequence.frames > 0 ? profile_.text_pairs : 0);
}

bool MeasuredModel::covers(const Load& load, const Strategy& strategy) const {
    const Curve* found = find(strategy);
    if (found == nullptr || load.tokens < found->knots.front().tokens ||
        load.tokens > found->knots.back().tokens) {
        return false;
    }
    const double mean = load.squared_tokens / static_cast<double>(load.tokens);
    return mean >= found->least_mean_length && mean <= found->most_mean_length;
}

}  // namespace dcp::plan
