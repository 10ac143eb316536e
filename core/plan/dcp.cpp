// The planner of this program: many constructions over many target times, then local search on the
// best of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/arrange.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/construct.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

constexpr double kMeanShare = 0.5;
constexpr std::int64_t kLeastMoves = 2'000;
constexpr std::int64_t kMostMoves = 3'000'000;  // of one draft

// Targets over the bound, dense where good plans end.
constexpr double kTargets[] = {1.0, 1.006, 1.012, 1.02, 1.03, 1.05, 1.08, 1.2, 1.5, 3.0};
constexpr double kFewTargets[] = {1.01, 1.03, 1.08, 3.0};

// How much is tried. Counts, never seconds: the result must not depend on the machine.
struct Budget {
    std::span<const double> targets = kTargets;
    std::vector<double> waste_shares = {0.0, 1.0};
    std::vector<double> merge_shares = {0.0, 0.75, 0.85, 0.93};
    int most_packs = 2;
    std::int64_t arrange_moves = 200'000;
    std::size_t kept = 5;       // drafts of each family that are improved a little
    std::size_t finalists = 4;  // of those, drafts that are improved much
    std::int64_t moves_a_sequence = 100;
    std::int64_t final_moves_a_sequence = 1500;
};

// From here on one construction takes milliseconds, and many alike gain less than moves do.
constexpr std::size_t kManySequences = 2500;

Budget budget_of(Effort effort, std::size_t num_sequences) {
    if (effort == Effort::kBackground && num_sequences < kManySequences) {
        return {};
    }
    Budget budget{.targets = kFewTargets,
                  .waste_shares = {0.4},
                  .merge_shares = {0.0, 0.85},
                  .most_packs = 1,
                  .arrange_moves = 0,
                  .kept = 2,
                  .finalists = 1,
                  .moves_a_sequence = 15,
                  .final_moves_a_sequence = 40};
    if (effort == Effort::kBackground) {
        budget.kept = 3;
        budget.finalists = 2;
        budget.final_moves_a_sequence = 400;
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
            for (const double solo : {1.0, 0.6}) {
                for (const double spare : {0.0, 0.03}) {
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

class Search {
public:
    Search(const Problem& problem, Effort effort, double bound_seconds)
        : problem_(problem),
          bound_(bound_seconds),
          budget_(budget_of(effort, problem.sequences.size())),
          costs_(problem),
          constructor_(problem, costs_) {
        const int node = problem.topology.ranks_per_node;
        all_nested_ =
            std::all_of(problem.degrees.begin(), problem.degrees.end(),
                        [node](int p) { return node % p == 0 || p % node == 0; });
            if (getenv("AM")) budget_.arrange_moves=atol(getenv("AM"));
    }

    // Hands every plan that may be the best to `offer`.
    template <class Offer>
    void run(Offer offer) {
        for (const Family& family : all_families(budget_, all_nested_)) {
            try_family(family);
        }
        if (getenv("VB")) for (auto&c:finalists_) fprintf(stderr,"fam %.4f\n",c.rating/bound_);
        if (budget_.arrange_moves > 0) {
            for (const bool fill : {true, false}) {
                try_arrangement(fill);
            }
        }
        if (getenv("VB")) for (auto&c:finalists_) fprintf(stderr,"fin %.4f\n",c.rating/bound_);
        for (Candidate& finalist : finalists_) {
            offer(finalist.draft);
            offer(improve(std::move(finalist.draft), bound_,
                          moves(budget_.final_moves_a_sequence), ++seed_));
        }
    }

private:
    std::int64_t moves(std::int64_t a_sequence) const {
        return std::clamp(a_sequence * static_cast<std::int64_t>(problem_.sequences.size()),
                          kLeastMoves, kMostMoves);
    }

    void improve_a_little(Draft draft) {
        Draft better = improve(std::move(draft), bound_, moves(budget_.moves_a_sequence), ++seed_);
        const double rating = better.busiest();
        keep(finalists_, budget_.finalists, rating, std::move(better));
    }

    void try_family(const Family& family) {
        std::vector<Candidate> kept;
        for (const double target : budget_.targets) {
            for (const Habits& habits : family) {
                Draft draft = constructor_.construct(bound_ * target, habits);
                const double rating = promise(draft);
                keep(kept, budget_.kept, rating, std::move(draft));
            }
        }
        for (Candidate& candidate : kept) {
            improve_a_little(std::move(candidate.draft));
        }
    }

    void try_arrangement(bool fills_gangs) {
        Arrangement outline = constructor_.outline(
            1.01 * bound_,
            {.waste_share = 0.4, .nested_degrees = all_nested_, .fill_gangs = fills_gangs});
        if (outline.short_ones.empty()) {
            return;
        }
        const Arrangement better = arrange(problem_, costs_, std::move(outline), bound_,
                                           {.moves = budget_.arrange_moves,
                                            .seed = ++seed_,
                                            .nested_degrees = all_nested_});
        if (getenv("VB")) fprintf(stderr,"arr %.4f\n",better.seconds/bound_);
        for (int packs = 0; packs <= 2; ++packs) {
            improve_a_little(constructor_.construct(better, better.seconds, {.packs_a_rank = packs}));
        }
    }

    const Problem& problem_;
    double bound_;
    Budget budget_;
    MicroCosts costs_;
    Constructor constructor_;
    bool all_nested_ = false;
    std::uint64_t seed_ = 0;
    std::vector<Candidate> finalists_;
};

}  // namespace

Plan DcpPlanner::plan(const Problem& problem) const {
    const double bound = lower_bounds(problem).best_seconds();
    const double once = problem.cost->per_iteration_seconds();
    Plan best = BucketPlanner().plan(problem);
    const auto offer = [&](Plan plan) {
        if (plan.makespan_seconds < best.makespan_seconds) {
            best = std::move(plan);
        }
    };
    offer(PackedPlanner().plan(problem));
    offer(InterPlanner().plan(problem));
    if (effort_ == Effort::kBackground) {
        offer(IntraPlanner().plan(problem));
    }
    Search(problem, effort_, bound - once).run([&](const Draft& draft) {
        offer(predicted(problem, draft.steps()));
    });
    best.lower_bound_seconds = bound;
    return best;
}

}  // namespace dcp::plan
