#include "core/plan/search.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/plan/arrange.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/split.hpp"

namespace dcp::plan {

namespace {

constexpr double kMeanShare = 0.5;
constexpr double kHardlyLonger = 1 + 1e-5;
constexpr std::int64_t kLeastMoves = 2'000;
constexpr std::int64_t kMostMoves = 3'000'000;  // of one draft
constexpr std::int64_t kLeastArrangeMoves = 300;
constexpr std::int64_t kMostArrangeMoves = 200'000;

// Targets over the bound, dense where good plans end.
constexpr double kTargets[] = {1.0, 1.006, 1.012, 1.02, 1.03, 1.05, 1.08, 1.2, 1.5, 3.0};
constexpr double kFewTargets[] = {1.02, 1.06, 3.0};
constexpr double kOneTarget[] = {1.03};
constexpr double kFarTargets[] = {1.3, 3.0};  // where the bound says little
constexpr double kFar = 1.08;

struct Start {                    // of an arrangement
    bool fills_gangs = true;      // short sequences do, before anything is moved
    bool nested_degrees = false;  // only degrees that nest
};

struct Budget {
    std::span<const double> targets = kTargets;  // none: only arrangements, where they are possible
    std::span<const double> far_targets;         // tried where the plan is far from the bound
    std::vector<double> waste_shares = {0.0, 1.0};
    std::vector<double> solo_shares = {1.0, 0.6};
    std::vector<double> spare_shares = {0.0, 0.03};
    std::vector<double> merge_shares = {0.0, 0.75, 0.85, 0.93};
    int most_packs = 2;
    std::vector<Start> arrangements = {{.fills_gangs = true}, {.fills_gangs = false}};
    // Families of habits are tried where arrangements leave a plan so much over the bound; 0:
    // always, and first.
    double families_from = 0;
    bool gangs_also_stay = true;  // a second annealing of what an arrangement gave, without gangs
    std::int64_t arrange_moves_a_sequence = 400;
    std::size_t kept = 5;       // drafts of each family that are improved a little
    std::size_t finalists = 4;  // of those, drafts that are improved much
    std::int64_t moves_a_sequence = 100;
    std::int64_t final_moves_a_sequence = 1500;
};

Budget fast_budget() {
    return {.targets = kOneTarget,
            .far_targets = kFarTargets,
            .waste_shares = {0.4},
            .solo_shares = {1.0},
            .spare_shares = {0.0},
            .merge_shares = {0.85},
            .most_packs = 1,
            .arrangements = {{.fills_gangs = true}},
            .families_from = 1.05,
            .gangs_also_stay = false,
            .arrange_moves_a_sequence = 1,
            .kept = 1,
            .finalists = 1,
            .moves_a_sequence = 2,
            .final_moves_a_sequence = 20};
}

// Small problems are done in milliseconds whatever is tried, and leave search the least room.
constexpr std::size_t kFewSequences = 128;
// On few ranks the best number of micro-batches is what matters most.
constexpr int kFewRanks = 8;
constexpr std::size_t kMostOnFewRanks = 512;

// `share`: of the moves, where a problem is one piece of a larger one; 1: it is the whole.
Budget budget_of(Effort effort, const Problem& problem, double share) {
    const std::size_t num_sequences = problem.sequences.size();
    Budget budget = effort == Effort::kFast ? fast_budget() : Budget{};
    if (effort == Effort::kFast && num_sequences < kFewSequences) {
        budget = Budget{.targets = kFewTargets,
                        .arrange_moves_a_sequence = 20,
                        .kept = 2,
                        .finalists = 2,
                        .moves_a_sequence = 20,
                        .final_moves_a_sequence = 100};
    }
    if (effort == Effort::kFast && share == 1 && problem.topology.ranks <= kFewRanks &&
        num_sequences >= kFewSequences && num_sequences < kMostOnFewRanks) {
        budget.most_packs = 2;
        budget.kept = 2;
        budget.finalists = 2;
        budget.final_moves_a_sequence = 40;
    }
    if (effort == Effort::kBackground && num_sequences < kFewSequences) {
        budget.arrange_moves_a_sequence *= 3;
        budget.kept = 10;
        budget.finalists = 12;
    }
    const auto scale = [share](std::int64_t& count) {
        count = static_cast<std::int64_t>(static_cast<double>(count) * share);
    };
    if (effort == Effort::kBackground && share < 0.5) {
        budget.targets = kFewTargets;
        budget.waste_shares = {0.4};
        budget.kept = 2;
        budget.finalists = 2;
        scale(budget.arrange_moves_a_sequence);
        scale(budget.moves_a_sequence);
        scale(budget.final_moves_a_sequence);
    }
    if (effort == Effort::kFast && share < 1 && num_sequences >= kFewSequences) {
        budget.targets = {};
        budget.far_targets = {};
        budget.arrange_moves_a_sequence = share < 0.5 ? 0 : 1;  // 0: the least there are
        budget.moves_a_sequence = 0;                            // the whole is improved, once
        budget.final_moves_a_sequence = 0;
    }
    return budget;
}

// Habits that lead to plans of one kind compete with each other only.
using Family = std::vector<Habits>;

std::vector<Family> all_families(const Budget& budget, bool all_nested) {
    Family spread;
    Family packed;
    for (const bool nested : {true, false}) {
        if (!nested && all_nested) {
            break;  // there is nothing else
        }
        for (const double waste : budget.waste_shares) {
            for (const double solo : budget.solo_shares) {
                for (const double spare : budget.spare_shares) {
                    spread.push_back({.waste_share = waste,
                                      .solo_share = solo,
                                      .nested_degrees = nested,
                                      .fill_gangs = false,
                                      .spare_share = spare});
                }
            }
            for (int packs = 1; packs <= budget.most_packs; ++packs) {
                for (const double merge : budget.merge_shares) {
                    packed.push_back({.waste_share = waste,
                                      .nested_degrees = nested,
                                      .packs_a_rank = packs,
                                      .merge_share = merge});
                }
            }
        }
    }
    return {spread, packed};
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
    Search(const Problem& problem, const MicroCosts& costs, Budget budget, double bound_seconds)
        : problem_(problem),
          bound_(bound_seconds),
          budget_(std::move(budget)),
          costs_(costs),
          order_(problem),
          constructor_(problem, costs_) {
        const int node = problem.topology.ranks_per_node;
        all_nested_ = std::all_of(problem.degrees.begin(), problem.degrees.end(),
                                  [node](int p) { return node % p == 0 || p % node == 0; });
    }

    Draft run() {
        const bool families_first = budget_.families_from == 0;
        if (families_first) {
            try_families(budget_.targets);
        }
        for (const Start& start : budget_.arrangements) {
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
                          kLeastMoves, kMostMoves);
    }

    std::int64_t arrange_moves() const {
        return std::clamp(
            budget_.arrange_moves_a_sequence * static_cast<std::int64_t>(problem_.sequences.size()),
            kLeastArrangeMoves, kMostArrangeMoves);
    }

    Draft annealed(Draft draft, std::int64_t moves_a_sequence) {
        if (moves_a_sequence == 0) {
            return draft;
        }
        return annealed_twice(std::move(draft), order_, bound_, moves(moves_a_sequence), seed_);
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

    void try_arrangement(const Start& start) {
        const bool is_nested = all_nested_ || start.nested_degrees;
        Arrangement outline = constructor_.outline(
            1.01 * bound_,
            {.waste_share = 0.4, .nested_degrees = is_nested, .fill_gangs = start.fills_gangs});
        if (outline.short_ones.empty()) {
            return;
        }
        const Arrangement better =
            arrange(problem_, costs_, std::move(outline), bound_,
                    {.moves = arrange_moves(), .seed = ++seed_, .nested_degrees = is_nested});
        std::vector<Candidate> kept;
        for (int packs = 0; packs <= budget_.most_packs; ++packs) {
            Draft draft = constructor_.construct(better, better.seconds, {.packs_a_rank = packs});
            const double rating = promise(draft);
            keep(kept, budget_.kept, rating, std::move(draft));
        }
        for (Candidate& candidate : kept) {
            if (budget_.gangs_also_stay) {
                keep_finalist(improve(candidate.draft, order_, bound_,
                                      {.moves = moves(budget_.moves_a_sequence),
                                       .seed = ++seed_,
                                       .gangs_stay = true}));
            }
            keep_finalist(annealed(std::move(candidate.draft), budget_.moves_a_sequence));
        }
    }

    const Problem& problem_;
    double bound_;
    Budget budget_;
    const MicroCosts& costs_;
    LengthOrder order_;
    Constructor constructor_;
    bool all_nested_ = false;
    std::uint64_t seed_ = 0;
    std::vector<Candidate> finalists_;
    Shortest best_;
};

// Moves for the whole cluster once its pieces are planned: they level the pieces.
constexpr std::int64_t kLevelMovesFast = 6;
constexpr std::int64_t kLevelMovesBackground = 40;

// The pieces' drafts as one, after single ranks, and all, have exchanged sequences across pieces.
Draft levelled(Draft pieces, Effort effort, double bound_seconds) {
    const LengthOrder order(pieces.problem());
    const std::int64_t moves = (effort == Effort::kFast ? kLevelMovesFast : kLevelMovesBackground) *
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

Plan search(const Problem& problem, Effort effort, double bound_seconds) {
    const MicroCosts costs(problem);
    const std::vector<Piece> pieces = split(problem, costs, bound_seconds);
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

}  // namespace dcp::plan
