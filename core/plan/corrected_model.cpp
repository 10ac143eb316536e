#include "core/plan/corrected_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::plan {

namespace {

void check(int degree, const DegreeCorrection& correction) {
    bool is_right = std::isfinite(correction.squared) && correction.squared > 0;
    std::int64_t tokens = 0;
    for (const TokenFactor& one : correction.tokens) {
        is_right = is_right && one.tokens > tokens && std::isfinite(one.factor) && one.factor > 0;
        tokens = one.tokens;
    }
    MoreBytes last{.tokens = 0, .bytes = 0};
    for (const MoreBytes& one : correction.bytes) {
        is_right = is_right && one.tokens > last.tokens && one.bytes >= last.bytes;
        last = one;
    }
    if (!is_right) {
        throw PlanError(fmt::format(
            "the correction of SP degree {}: factors must be positive, and lists rise", degree));
    }
}

const CostPiece& piece_of(const std::vector<CostPiece>& pieces, std::int64_t tokens) {
    return *std::find_if(pieces.begin(), pieces.end() - 1,
                         [tokens](const CostPiece& one) { return tokens <= one.most_tokens; });
}

double token_seconds(const LinearCost& line, std::int64_t tokens) {
    return line.fixed_seconds + line.token_seconds * static_cast<double>(tokens);
}

}  // namespace

double factor_at(const DegreeCorrection& correction, std::int64_t tokens) {
    const std::vector<TokenFactor>& list = correction.tokens;
    if (list.empty()) {
        return 1;
    }
    const auto above = std::find_if(list.begin(), list.end(), [tokens](const TokenFactor& one) {
        return one.tokens >= tokens;
    });
    if (above == list.begin() || above == list.end()) {
        return above == list.end() ? list.back().factor : list.front().factor;
    }
    const TokenFactor& below = *(above - 1);
    const auto log_of = [](std::int64_t value) { return std::log(static_cast<double>(value)); };
    const double share =
        (log_of(tokens) - log_of(below.tokens)) / (log_of(above->tokens) - log_of(below.tokens));
    return below.factor + share * (above->factor - below.factor);
}

double more_bytes_at(const DegreeCorrection& correction, std::int64_t tokens) {
    double bytes = 0;
    for (const MoreBytes& one : correction.bytes) {
        bytes = tokens >= one.tokens ? one.bytes : bytes;
    }
    return bytes;
}

namespace {

std::vector<CostPiece> corrected_pieces(const std::vector<CostPiece>& inner,
                                        const DegreeCorrection& correction) {
    std::set<std::int64_t> ends{inner.back().most_tokens};
    for (const CostPiece& piece : inner) {
        ends.insert(piece.most_tokens);
    }
    for (const TokenFactor& one : correction.tokens) {
        ends.insert(one.tokens);
    }
    for (const MoreBytes& one : correction.bytes) {
        ends.insert(std::max<std::int64_t>(one.tokens - 1, 1));
    }
    std::vector<CostPiece> pieces;
    std::int64_t begin = 0;
    double at_begin = 0;  // F there
    for (const std::int64_t end : ends) {
        LinearCost line = piece_of(inner, end).line;
        const bool is_last = end == inner.back().most_tokens;
        const double first_factor = factor_at(correction, begin);
        at_begin = std::max(at_begin, first_factor * token_seconds(line, begin));
        const double at_end =
            std::max(at_begin, factor_at(correction, end) * token_seconds(line, end));
        const double slope = is_last ? first_factor * line.token_seconds
                                     : (at_end - at_begin) / static_cast<double>(end - begin);
        line.fixed_seconds = at_begin - slope * static_cast<double>(begin);
        line.token_seconds = slope;
        line.squared_token_seconds *= correction.squared;
        line.static_bytes += more_bytes_at(correction, end);
        pieces.push_back({.most_tokens = end, .line = line});
        begin = end;
        at_begin = at_end;
    }
    return pieces;
}

}  // namespace

CorrectedModel::CorrectedModel(std::shared_ptr<const CostModel> inner,
                               std::map<int, DegreeCorrection> corrections)
    : inner_(std::move(inner)) {
    for (auto& [degree, correction] : corrections) {
        check(degree, correction);
        Degree& made = degrees_[degree];
        made.correction = std::move(correction);
        for (int depth = 0; depth <= inner_->layers(); ++depth) {
            std::vector<CostPiece> pieces = inner_->pieces(degree, depth);
            made.by_depth.push_back(
                {.inner = pieces, .corrected = corrected_pieces(pieces, made.correction)});
        }
    }
}

const CorrectedModel::Degree* CorrectedModel::find(int degree) const {
    const auto found = degrees_.find(degree);
    return found == degrees_.end() ? nullptr : &found->second;
}

std::vector<CostPiece> CorrectedModel::pieces(int degree, int recompute_layers) const {
    const Degree* found = find(degree);
    return found == nullptr ? inner_->pieces(degree, recompute_layers)
                            : found->by_depth[static_cast<std::size_t>(recompute_layers)].corrected;
}

// By as much as the strategy that planners prefer for the degree, whichever the strategy is.
StepCost CorrectedModel::cost(const Load& load,
                              const Strategy& strategy,
                              int recompute_layers) const {
    StepCost whole = inner_->cost(load, strategy, recompute_layers);
    const int degree = strategy.degree();
    const Degree* found = find(degree);
    if (found == nullptr) {
        return whole;
    }
    const DegreeCorrection& correction = found->correction;
    const Pieces& pieces = found->by_depth[static_cast<std::size_t>(recompute_layers)];
    const StepCost of_tokens = inner_->cost({load.tokens, 0}, strategy, recompute_layers);
    const double before = token_seconds(piece_of(pieces.inner, load.tokens).line, load.tokens);
    const double after = token_seconds(piece_of(pieces.corrected, load.tokens).line, load.tokens);
    const double factor = before > 0 ? after / before : factor_at(correction, load.tokens);
    const auto corrected = [&](double StepCost::*seconds) {
        return factor * of_tokens.*seconds +
               correction.squared * (whole.*seconds - of_tokens.*seconds);
    };
    return {.fixed_seconds = corrected(&StepCost::fixed_seconds),
            .compute_seconds = corrected(&StepCost::compute_seconds),
            .communication_seconds = corrected(&StepCost::communication_seconds),
            .peak_bytes = whole.peak_bytes + more_bytes_at(correction, load.tokens)};
}

// From below: the least fixed part that any factor leaves, and the least slope that reaches the
// pieces from there. A line over a line has its least ratio at one of the ends.
LinearCost CorrectedModel::linear(int degree, int recompute_layers) const {
    LinearCost least = inner_->linear(degree, recompute_layers);
    const Degree* found = find(degree);
    if (found == nullptr) {
        return least;
    }
    const DegreeCorrection& correction = found->correction;
    double factor = correction.tokens.empty() ? 1 : correction.tokens.front().factor;
    for (const TokenFactor& one : correction.tokens) {
        factor = std::min(factor, one.factor);
    }
    least.fixed_seconds *= factor;
    least.squared_token_seconds *= correction.squared;
    const std::vector<CostPiece>& all =
        found->by_depth[static_cast<std::size_t>(recompute_layers)].corrected;
    least.token_seconds = all.back().line.token_seconds;
    double begin = 1;
    for (const CostPiece& piece : all) {
        for (const double tokens : {begin, static_cast<double>(piece.most_tokens)}) {
            const double above = piece.line.fixed_seconds - least.fixed_seconds;
            least.token_seconds =
                std::min(least.token_seconds, above / tokens + piece.line.token_seconds);
        }
        begin = static_cast<double>(piece.most_tokens);
    }
    return least;
}

}  // namespace dcp::plan
