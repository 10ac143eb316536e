// Which micro-batches to measure: a coarse grid first, then wherever the costs between its points
// are known worst. Pure: the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/profile.hpp"
#include "core/profile/request.hpp"

namespace dcp::profile {

struct GridLimits {
    std::vector<plan::Strategy> strategies;
    std::int64_t rank_tokens = 0;     // a rank's share of a micro-batch holds at most so many
    std::int64_t batch_tokens = 0;    // nor has a micro-batch more than a whole batch
    std::int64_t longest_tokens = 0;  // of a sequence
};

// For every strategy, by rising tokens up to the most there may be: a few numbers of tokens, each a
// factor of 4 from the next, as one sequence (or as few as are allowed) and as many short ones; and
// the longest sequence alone.
std::vector<Request> base_grid(const GridLimits& limits);

// Those of the grid that lie beyond what the points reach, in tokens or in squares of them, or
// belong to a strategy without points.
std::vector<Request> missing_requests(std::span<const plan::ProfilePoint> points,
                                      const GridLimits& limits);

// Two requests (one sequence, several) for the number of tokens between two measured ones where
// interpolation is expected to be worst, or nothing where it is expected to be off by less than
// `tolerance` everywhere. An error is expected from what the curve would say of a measured point if
// it had not been measured; for a piece of line it falls with the square of its length.
std::vector<Request> next_refinement(std::span<const plan::ProfilePoint> points,
                                     const GridLimits& limits,
                                     double tolerance);

// What the next number of tokens of a curve will take, if it takes more for a token as it last did:
// at least as much for each as before.
class CurvePace {
public:
    void add(std::int64_t tokens, double seconds);
    double expected(std::int64_t tokens) const;  // seconds; 0 where nothing is known

private:
    double for_each_ = 0;  // seconds of a token
    double growth_ = 1;
};

}  // namespace dcp::profile
