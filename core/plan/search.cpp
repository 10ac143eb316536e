#include "core/plan/search.hpp"

#include <algorithm>
#include <utility>

#include "core/plan/search_whole.hpp"
#include "core/plan/split.hpp"

namespace dcp::plan {

namespace {

// In a hurry: so near the bound, many narrow pieces are not tried beside few wide ones; nor, unless
// farther than this, wide ones beside few narrow ones.
constexpr double kNear = 1.05;
constexpr double kNotNear = 1.1;
constexpr std::size_t kManyPieces = 20;

constexpr double kFarOff = 1.05;          // so far over the bound, it was a poor guide
constexpr std::size_t kFewestTwice = 64;  // fewer sequences are searched in many ways already
constexpr double kHardlyShorter = 1 - 1e-6;

// Moves for the whole cluster once its pieces are planned: they level the pieces.
constexpr std::int64_t kLevelMovesFast = 5;
constexpr std::int64_t kLevelMovesUneven = 12;  // in a hurry, where pieces differ more than this:
constexpr double kUneven = 1.1;                 // the longest over the bound
constexpr std::int64_t kLevelMovesBackground = 40;

std::int64_t level_moves(const Draft& pieces, Effort effort, double bound_seconds) {
    if (effort == Effort::kBackground) {
        return kLevelMovesBackground;
    }
    return pieces.busiest() > kUneven * bound_seconds ? kLevelMovesUneven : kLevelMovesFast;
}

// The pieces' drafts as one, after single ranks, and all, have exchanged sequences across pieces.
Draft levelled(Draft pieces, Effort effort, double bound_seconds) {
    const LengthOrder order(pieces.problem());
    const std::int64_t moves = level_moves(pieces, effort, bound_seconds) *
                               static_cast<std::int64_t>(order.sequences.size());
    Shortest best;
    std::uint64_t seed = 0;
    best.offer(annealed_twice(pieces, order, bound_seconds, moves, seed));
    if (effort == Effort::kBackground) {
        best.offer(improve(pieces, order, bound_seconds,
                           {.moves = moves, .seed = ++seed, .gangs_stay = true}));
    }
    best.offer(std::move(pieces));
    return best.taken();
}

// The bound guides a search: gangs are outlined for it. A giant that is too long for any plan so
// short on its cheapest degree may still end up there, since wider ones cost more rank-seconds than
// a move may; nothing can then be shorter than that gang. So far over the bound a second search is
// guided by what lies half-way, and may not give a gang a degree on which it takes all of the time.
Plan search_twice(const Problem& problem,
                  const MicroCosts& costs,
                  const SearchBudget& budget,
                  double bound_seconds) {
    Plan plan = predicted(problem, search_whole(problem, costs, budget, bound_seconds).steps());
    const double reached = plan.makespan_seconds - problem.cost->per_iteration_seconds();
    if (reached <= kFarOff * bound_seconds || problem.sequences.size() < kFewestTwice) {
        return plan;
    }
    SearchBudget limited = budget;
    limited.most_gang_seconds = kHardlyShorter * reached;
    const double half_way = (bound_seconds + reached) / 2;
    Plan second = predicted(problem, search_whole(problem, costs, limited, half_way).steps());
    return second.makespan_seconds < plan.makespan_seconds ? second : plan;
}

Plan search_pieces(const Problem& problem,
                   const MicroCosts& costs,
                   const std::vector<Piece>& pieces,
                   Effort effort,
                   double bound_seconds) {
    if (pieces.size() < 2) {
        return search_twice(problem, costs, budget_of(effort, problem, 1), bound_seconds);
    }
    const double share = std::min(0.99, 2.0 / static_cast<double>(pieces.size()));
    Draft draft(problem, costs);
    for (const Piece& piece : pieces) {
        const MicroCosts own_costs(costs, piece.problem.degrees);
        const SearchBudget budget = budget_of(effort, piece.problem, share);
        open_whole(piece, search_whole(piece.problem, own_costs, budget, bound_seconds), draft);
    }
    return predicted(problem, levelled(std::move(draft), effort, bound_seconds).steps());
}

}  // namespace

Plan search(const Problem& problem, const SearchBudget& budget, double bound_seconds) {
    return search_twice(problem, MicroCosts(problem), budget, bound_seconds);
}

// Pieces so wide that giants can be quick take long to search, so that is always done in a hurry.
// Who is in a hurry begins with what takes less and is content near the bound.
Plan search(const Problem& problem, Effort effort, double bound_seconds) {
    const MicroCosts costs(problem);
    const auto narrow = split(problem, costs, bound_seconds, PieceWidth::kHolding);
    const auto wide = split(problem, costs, bound_seconds, PieceWidth::kQuick);
    if (wide.size() >= narrow.size()) {
        return search_pieces(problem, costs, narrow, effort, bound_seconds);
    }
    const bool wide_first = narrow.size() > kManyPieces;
    const double enough = (wide_first ? kNear : kNotNear) * bound_seconds;
    Plan best = wide_first ? search_pieces(problem, costs, wide, Effort::kFast, bound_seconds)
                           : search_pieces(problem, costs, narrow, effort, bound_seconds);
    if (effort == Effort::kFast &&
        best.makespan_seconds <= enough + problem.cost->per_iteration_seconds()) {
        return best;
    }
    Plan other = wide_first ? search_pieces(problem, costs, narrow, effort, bound_seconds)
                            : search_pieces(problem, costs, wide, Effort::kFast, bound_seconds);
    return other.makespan_seconds < best.makespan_seconds ? other : best;
}

}  // namespace dcp::plan
