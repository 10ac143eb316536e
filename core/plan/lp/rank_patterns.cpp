#include "core/plan/lp/rank_patterns.hpp"

#include <algorithm>
#include <set>

namespace dcp::plan::lp {

namespace {

// Numbers of micro-batches that get prices of their own, around the mean.
constexpr int kBelow = 3;
constexpr int kAbove = 5;
constexpr int kBelowBesideAnchor = 2;
constexpr int kAboveBesideAnchor = 3;
constexpr double kMostCount = 1e6;
// The least times that the anchor takes alone are told apart; the last band has all longer ones.
constexpr std::size_t kBands = 3;

// Counts of others near what the time left asks for, of ranks that are alike in all else.
void add_counts(Pattern pattern, const Ranks& ranks, std::vector<Pattern>& patterns) {
    const double least = pattern.least_seconds();
    if (ranks.fixed_seconds <= 0) {  // micro-batches cost nothing, so their number says nothing
        pattern.others = 1;
        pattern.stands_for_fewer = true;
        pattern.stands_for_more = true;
        patterns.push_back(pattern);
        return;
    }
    const int lowest = pattern.anchor ? 0 : 1;
    const double left = std::max(0.0, ranks.makespan * kSlack - least);
    const int top = std::max(
        lowest, static_cast<int>(std::min(kMostCount, left / ranks.fixed_seconds * kSlack)));
    const double mean = ranks.mean_count * (1 - std::min(1.0, least / ranks.makespan));
    const int middle = std::clamp(static_cast<int>(std::min(kMostCount, mean)), lowest, top);
    const int first = std::max(lowest, middle - (pattern.anchor ? kBelowBesideAnchor : kBelow));
    const int last = std::min(top, middle + (pattern.anchor ? kAboveBesideAnchor : kAbove));
    for (int others = first; others <= last; ++others) {
        pattern.others = others;
        pattern.stands_for_fewer = others == first && first > lowest;
        pattern.stands_for_more = others == last && last < top;
        patterns.push_back(pattern);
    }
}

// Of a sequence alone, in all layouts that hold it and last no longer than the makespan; rising.
std::vector<double> seconds_alone(const Size& size,
                                  const Ranks& ranks,
                                  const std::vector<Layout>& layouts) {
    std::set<double> alone;
    for (const Layout& layout : layouts) {
        const double seconds = ranks.fixed_seconds + layout.extra_seconds + layout.work(size);
        if (size.tokens <= layout.most_tokens && seconds <= ranks.makespan * kSlack) {
            alone.insert(seconds);
        }
    }
    return {alone.begin(), alone.end()};
}

}  // namespace

std::vector<std::pair<double, double>> corners(const Pattern& pattern,
                                               double fixed_seconds,
                                               double makespan) {
    const double least = pattern.least_seconds() / kSlack;
    const double fewest = pattern.stands_for_fewer ? 0 : pattern.others;
    const double most = pattern.stands_for_more && fixed_seconds > 0
                            ? std::max(fewest, (makespan - least) / fixed_seconds)
                            : pattern.others;
    const auto longest = [&](double others) {
        return pattern.anchor ? std::max(least, makespan - others * fixed_seconds) : 0;
    };
    std::vector<std::pair<double, double>> corners{
        {fewest, least}, {fewest, longest(fewest)}, {most, least}, {most, longest(most)}};
    std::sort(corners.begin(), corners.end());
    corners.erase(std::unique(corners.begin(), corners.end()), corners.end());
    return corners;
}

std::vector<Pattern> rank_patterns(const Ranks& ranks,
                                   const std::vector<Layout>& layouts,
                                   const Lengths& lengths,
                                   std::size_t anchors) {
    std::vector<Pattern> patterns;
    std::optional<Size> limit;
    const std::size_t size = lengths.tokens.size();
    for (std::size_t i = size; i > 0 && size - i < anchors; --i) {
        const Size anchor = size_at(lengths, i - 1);
        // Of several sequences of one size a rank may have more than one.
        const std::optional<Size> below = lengths.counts[i - 1] > 1 ? limit : anchor;
        const std::vector<double> alone = seconds_alone(anchor, ranks, layouts);
        const std::size_t bands = std::min(kBands, alone.size());
        for (std::size_t band = 0; band < bands; ++band) {
            // Bands leave no gap between them, so that rounding loses no layout.
            Pattern::Anchor own{.size = anchor, .least_seconds = alone[band]};
            own.from_seconds = band > 0 ? alone[band] : 0;
            if (band + 1 < bands) {
                own.to_seconds = alone[band + 1];
            }
            add_counts({.anchor = own, .limit = below}, ranks, patterns);
        }
        limit = anchor;
    }
    add_counts({.limit = limit}, ranks, patterns);
    return patterns;
}

}  // namespace dcp::plan::lp
