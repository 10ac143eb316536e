#include "core/plan/search.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/plan/arrange.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/search_budget.hpp"
#include "core/plan/split.hpp"

namespace dcp::plan {

namespace {

constexpr double kMeanShare = 0.5;
constexpr double kSeveral = 2;  // micro-batches a rank
constexpr double kHardlyLonger = 1 + 1e-5;
constexpr std::int64_t kMostMoves = 3'000'000;  // of one draft
constexpr std::int64_t kMostArrangeMoves = 200'000;

// In a hurry: so near the bound, many narrow pieces are not tried beside few wide ones; nor, unless
// farther than this, wide ones beside few narrow ones.
constexpr double kNear = 1.05;
constexpr double kNotNear = 1.1;
constexpr std::size_t kManyPieces = 20;

// So far over the bound other targets are tried too.
constexpr double kFar = 1.08;

// Habits that lead to plans of one kind compete with each other only.
using Family = std::vector<Habits>;

std::vector<Family> all_families(const SearchBudget& budget, bool all_nested) {
    Family spread;
    Family packed;
    Family fullest;
    Family thrifty_spread;
    Family thrifty_packed;
    for (const bool nested : {true, false}) {
        if (!nested && all_nested) {
            break;  // there is nothing else
        }
        for (const double waste : budget.waste_shares) {
            const auto spread_out = [&](Filling filling, Family& family) {
                for (const double solo : budget.solo_shares) {
                    for (const double spare : budget.spare_shares) {
                        family.push_back({.waste_share = waste,
                                          .solo_share = solo,
                                          .nested_degrees = nested,
                                          .fill_gangs = false,
                                          .filling = filling,
                                          .spare_share = spare});
                    }
                }
            };
            const auto pack = [&](Filling filling, int most_packs,
                                  const std::vector<double>& merge_shares, Family& family) {
                for (int packs = 1; packs <= most_packs; ++packs) {
                    for (const double merge : merge_shares) {
                        family.push_back({.waste_share = waste,
                                          .nested_degrees = nested,
                                          .filling = filling,
                                          .packs_a_rank = packs,
                                          .merge_share = merge});
                    }
                }
            };
            spread_out(Filling::kFull, spread);
            pack(Filling::kFull, budget.most_packs, budget.merge_shares, packed);
            pack(Filling::kFullest, budget.most_packs, budget.fullest_merge_shares, fullest);
            if (budget.most_thrifty_packs > 0) {
                spread_out(Filling::kThrifty, thrifty_spread);
                pack(Filling::kThrifty, budget.most_thrifty_packs, budget.merge_shares,
                     thrifty_packed);
            }
        }
    }
    return {spread, packed, fullest, thrifty_spread, thrifty_packed};
}

// What a draft promises: annealing levels the ranks, so their mean counts as much as the busiest.
double promise(const Draft& draft) {
    double sum = 0;
    for (const double busy : draft.busy()) {
        sum += busy;
    }
    return kMeanShare * sum / static_cast<double>(draft.busy().size()) +
           (1 - kMeanShare) * draft.busiest();
}

struct Candidate {
    double rating;  // the less the better
    Draft draft;
};

// The best few, best first, no two alike.
void keep(std::vector<Candidate>& kept, std::size_t most, double rating, Draft draft) {
    const auto place = std::find_if(kept.begin(), kept.end(),
                                    [&](const Candidate& other) { return rating <= other.rating; });
    if (place != kept.end() && place->rating == rating) {
        return;
    }
    kept.insert(place, {rating, std::move(draft)});
    if (kept.size() > most) {
        kept.pop_back();
    }
}

// Annealing takes what ranks wait for as it was when the draft was made. Where other contents of
// gangs made it more, gangs then stay, and single-rank micro-batches make up for it.
Draft annealed_twice(Draft draft,
                     const LengthOrder& order,
                     double bound_seconds,
                     std::int64_t moves,
                     std::uint64_t& seed) {
    Draft better =
        improve(std::move(draft), order, bound_seconds, {.moves = moves, .seed = ++seed});
    const double promised = better.busiest();
    Draft waiting = Draft::opened_anew(std::move(better));
    if (waiting.busiest() <= promised * kHardlyLonger) {
        return waiting;
    }
    return improve(std::move(waiting), order, bound_seconds,
                   {.moves = moves / 2, .seed = ++seed, .gangs_stay = true});
}

// Of drafts whose gangs were opened with the sequences they have: the one whose plan is shortest.
class Shortest {
public:
    void offer(Draft&& draft) {
        const double seconds = seconds_of(draft);
        if (!draft_ || seconds < seconds_) {
            seconds_ = seconds;
            draft_ = std::move(draft);
        }
    }
    double seconds() const { return seconds_; }
    Draft taken() { return *std::move(draft_); }

private:
    // A draft knows, but for slow ranks: it takes exchanges to be slow there too.
    static double seconds_of(const Draft& draft) {
        const Problem& problem = draft.problem();
        return problem.topology.speeds.empty()
                   ? draft.busiest()
                   : predicted(problem, draft.steps()).makespan_seconds -
                         problem.cost->per_iteration_seconds();
    }

    std::optional<Draft> draft_;
    double seconds_ = 0;
};

class Search {
public:
    Search(const Problem& problem,
           const MicroCosts& costs,
           SearchBudget budget,
           double bound_seconds)
        : problem_(problem),
          bound_(bound_seconds),
          budget_(std::move(budget)),
          costs_(costs),
          constructor_(problem, costs_) {
        bool may_be_thrifty = false;
        for (std::size_t index = 0; index < costs_.num_degrees(); ++index) {
            may_be_thrifty |= costs_.thrifty_tokens(index) < costs_.most_tokens(index);
        }
        if (!may_be_thrifty) {
            budget_.most_thrifty_packs = 0;
        }
        const int node = problem.topology.ranks_per_node;
        all_nested_ = std::all_of(problem.degrees.begin(), problem.degrees.end(),
                                  [node](int p) { return node % p == 0 || p % node == 0; });
    }

    Draft run() {
        const bool families_first = budget_.families_from == 0;
        if (families_first) {
            try_families(budget_.targets);
        }
        for (const ArrangementStart& start : budget_.arrangements) {
            try_arrangement(start);
        }
        if (!families_first &&
            (finalists_.empty() || finalists_.front().rating > budget_.families_from * bound_)) {
            try_families(budget_.targets);
        }
        if (finalists_.empty()) {
            try_families(kOneTarget);
        }
        improve_much();
        if (best_.seconds() > kFar * bound_ && !budget_.far_targets.empty()) {
            try_families(budget_.far_targets);
            improve_much();
        }
        return best_.taken();
    }

private:
    std::int64_t moves(std::int64_t a_sequence) const {
        if (a_sequence == 0) {
            return 0;
        }
        return std::clamp(a_sequence * static_cast<std::int64_t>(problem_.sequences.size()),
                          budget_.least_moves, kMostMoves);
    }

    // A move places the gangs behind it again, and each looks at all nodes and at its ranks.
    std::int64_t arrange_moves(const ArrangementStart& start,
                               const std::vector<Gang>& gangs) const {
        const double wanted = start.moves * static_cast<double>(budget_.arrange_moves_a_sequence) *
                              static_cast<double>(problem_.sequences.size());
        const std::int64_t moves = std::clamp(static_cast<std::int64_t>(wanted),
                                              budget_.least_arrange_moves, kMostArrangeMoves);
        std::int64_t looks = 1;
        for (const Gang& gang : gangs) {
            looks += problem_.topology.num_nodes() + costs_.degree(gang.degree_index);
        }
        return std::min(moves, budget_.most_arrange_looks / looks);
    }

    Draft annealed(Draft draft, std::int64_t moves_a_sequence) {
        if (moves_a_sequence == 0) {
            return draft;
        }
        return annealed_twice(std::move(draft), order(), bound_, moves(moves_a_sequence), seed_);
    }

    const LengthOrder& order() {  // pieces of a hurried search are not annealed and need none
        if (!order_) {
            order_.emplace(problem_);
        }
        return *order_;
    }

    void keep_finalist(Draft draft) {
        const double rating = draft.busiest();
        keep(finalists_, budget_.finalists, rating, std::move(draft));
    }

    void improve_much() {
        for (Candidate& finalist : finalists_) {
            if (budget_.final_moves_a_sequence > 0) {
                best_.offer(annealed(finalist.draft, budget_.final_moves_a_sequence));
            }
            best_.offer(std::move(finalist.draft));
        }
        finalists_.clear();
    }

    void try_families(std::span<const double> targets) {
        for (const Family& family : all_families(budget_, all_nested_)) {
            try_family(family, targets);
        }
    }

    void try_family(const Family& family, std::span<const double> targets) {
        std::vector<Candidate> kept;
        for (const double target : targets) {
            for (const Habits& habits : family) {
                Draft draft = constructor_.construct(bound_ * target, habits);
                const double rating = promise(draft);
                keep(kept, budget_.kept, rating, std::move(draft));
            }
        }
        for (Candidate& candidate : kept) {
            keep_finalist(annealed(std::move(candidate.draft), budget_.moves_a_sequence));
        }
    }

    // How the short sequences of an arrangement may get their micro-batches; packed ones first
    // where ranks have several.
    std::vector<Habits> drawings(const Arrangement& arrangement) const {
        std::vector<Habits> all;
        const auto add = [&](Filling filling, int least_packs, int most_packs) {
            for (int packs = least_packs; packs <= most_packs; ++packs) {
                all.push_back({.filling = filling, .packs_a_rank = packs});
            }
        };
        add(Filling::kFull, 0, budget_.most_packs);
        double tokens = 0;
        for (const std::int32_t sequence : arrangement.short_ones) {
            tokens +=
                static_cast<double>(problem_.sequences[static_cast<std::size_t>(sequence)].tokens);
        }
        if (tokens >
            kSeveral * problem_.topology.ranks * static_cast<double>(costs_.most_tokens(0))) {
            std::rotate(all.begin(), all.begin() + 1, all.end());
        }
        if (!budget_.fullest_merge_shares.empty()) {
            add(Filling::kFullest, 1, budget_.most_packs);
        }
        if (budget_.most_thrifty_packs > 0) {
            add(Filling::kThrifty, 0, budget_.most_thrifty_packs);
        }
        return all;
    }

    void try_arrangement(const ArrangementStart& start) {
        const bool is_nested = all_nested_ || start.nested_degrees;
        Arrangement outline = constructor_.outline(
            1.01 * bound_,
            {.waste_share = 0.4, .nested_degrees = is_nested, .fill_gangs = start.fills_gangs});
        if (outline.short_ones.empty()) {
            return;
        }
        const std::int64_t moves_here = arrange_moves(start, outline.gangs);
        const Arrangement better = arrange(problem_, costs_, std::move(outline), bound_,
                                           {.moves = moves_here,
                                            .seed = ++seed_,
                                            .nested_degrees = is_nested,
                                            .fits_gangs = start.fits_gangs});
        std::vector<Candidate> kept;
        for (const Habits& habits : drawings(better)) {
            Draft draft = constructor_.construct(better, better.seconds, habits);
            const double rating = promise(draft);
            keep(kept, budget_.kept, rating, std::move(draft));
            if (kept.front().rating <= budget_.enough * better.seconds) {
                break;
            }
        }
        for (Candidate& candidate : kept) {
            if (budget_.gangs_also_stay) {
                keep_finalist(improve(candidate.draft, order(), bound_,
                                      {.moves = moves(budget_.moves_a_sequence),
                                       .seed = ++seed_,
                                       .gangs_stay = true}));
            }
            keep_finalist(annealed(std::move(candidate.draft), budget_.moves_a_sequence));
        }
    }

    const Problem& problem_;
    double bound_;
    SearchBudget budget_;
    const MicroCosts& costs_;
    std::optional<LengthOrder> order_;
    Constructor constructor_;
    bool all_nested_ = false;
    std::uint64_t seed_ = 0;
    std::vector<Candidate> finalists_;
    Shortest best_;
};

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

}  // namespace

Plan search(const Problem& problem, const SearchBudget& budget, double bound_seconds) {
    const MicroCosts costs(problem);
    Search whole(problem, costs, budget, bound_seconds);
    return predicted(problem, whole.run().steps());
}

namespace {

Plan search_pieces(const Problem& problem,
                   const MicroCosts& costs,
                   const std::vector<Piece>& pieces,
                   Effort effort,
                   double bound_seconds) {
    if (pieces.size() < 2) {
        Search whole(problem, costs, budget_of(effort, problem, 1), bound_seconds);
        return predicted(problem, whole.run().steps());
    }
    const double share = std::min(0.99, 2.0 / static_cast<double>(pieces.size()));
    Draft draft(problem, costs);
    for (const Piece& piece : pieces) {
        const MicroCosts own_costs(costs, piece.problem.degrees);
        Search search(piece.problem, own_costs, budget_of(effort, piece.problem, share),
                      bound_seconds);
        open_whole(piece, search.run(), draft);
    }
    return predicted(problem, levelled(std::move(draft), effort, bound_seconds).steps());
}

}  // namespace

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
