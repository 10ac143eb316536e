#include "core/plan/search_whole.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/arrange.hpp"
#include "core/plan/construct.hpp"

namespace dcp::plan {

namespace {

constexpr double kMeanShare = 0.5;
constexpr double kSeveral = 2;  // micro-batches a rank
constexpr double kHardlyLonger = 1 + 1e-5;
constexpr std::int64_t kMostMoves = 3'000'000;  // of one draft
constexpr std::int64_t kMostArrangeMoves = 200'000;

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

// A draft knows, but for slow ranks: it takes exchanges to be slow there too.
double seconds_of(const Draft& draft) {
    const Problem& problem = draft.problem();
    return problem.topology.speeds.empty() ? draft.busiest()
                                           : predicted(problem, draft.steps()).makespan_seconds -
                                                 problem.cost->per_iteration_seconds();
}

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
                                            .fits_gangs = start.fits_gangs,
                                            .most_gang_seconds = budget_.most_gang_seconds});
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

}  // namespace

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

void Shortest::offer(Draft&& draft) {
    const double seconds = seconds_of(draft);
    if (!draft_ || seconds < seconds_) {
        seconds_ = seconds;
        draft_ = std::move(draft);
    }
}

Draft search_whole(const Problem& problem,
                   const MicroCosts& costs,
                   SearchBudget budget,
                   double bound_seconds) {
    return Search(problem, costs, std::move(budget), bound_seconds).run();
}

}  // namespace dcp::plan
