// The planner of this program: the shortest of what its own search and all other planners find.
#include <bit>
#include <utility>
#include <vector>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/phases.hpp"
#include "core/plan/planners.hpp"
#include "core/plan/search.hpp"

namespace dcp::plan {

namespace {

// In a hurry the bound is a guide, and a plan near it is not compared with others where comparing
// takes as long as the search; with those that think longest only where it is far from it.
constexpr double kFastPrecision = 2e-3;
constexpr std::size_t kQuickSequences = 2500;  // one degree for all is tried in no time
constexpr std::size_t kQuickPhased = 30'000;   // ranks times sequences: so are plans in phases
constexpr int kPhasedRanks = 128;  // plans in phases win on few ranks, and take long on many
constexpr std::size_t kPhasedSequences = 2500;

double near_enough(std::size_t num_sequences) {
    if (num_sequences < 256) {
        return 1;
    }
    return num_sequences < 2500 ? 1.05 : 1.2;
}
double not_far(std::size_t num_sequences) {
    if (num_sequences < 256) {
        return 1;
    }
    return num_sequences < 2500 ? 1.1 : 1.2;
}

// Where there are few sequences there is time for searches among fewer choices, which sometimes go
// further: of degrees that are powers of two, and without recomputation.
constexpr std::size_t kSmall = 128;
constexpr std::size_t kSmallInAHurry = 48;

bool holds_all(const Problem& problem) {
    try {
        require_all_fit(problem);
    } catch (const PlanError&) {
        return false;
    }
    return !problem.degrees.empty();
}

std::vector<Problem> restricted(const Problem& problem) {
    std::vector<Problem> all;
    Problem doubling = problem;
    std::erase_if(doubling.degrees,
                  [](int degree) { return !std::has_single_bit(static_cast<unsigned>(degree)); });
    if (doubling.degrees.size() < problem.degrees.size() && holds_all(doubling)) {
        all.push_back(std::move(doubling));
    }
    Problem keeping = problem;
    keeping.may_recompute = false;
    if (problem.may_recompute && holds_all(keeping)) {
        all.push_back(std::move(keeping));
    }
    return all;
}

}  // namespace

Plan DcpPlanner::plan(const Problem& problem) const {
    const bool is_fast = effort_ == Effort::kFast;
    const double bound =
        (is_fast ? lower_bounds(problem, kFastPrecision) : lower_bounds(problem)).best_seconds();
    Plan best = search(problem, effort_, bound - problem.cost->per_iteration_seconds());
    const auto offer = [&](Plan plan) {
        if (plan.makespan_seconds < best.makespan_seconds) {
            best = std::move(plan);
        }
    };
    const double gap = best.makespan_seconds / bound;
    const std::size_t num_sequences = problem.sequences.size();
    const bool compares = !is_fast || gap > near_enough(num_sequences);
    const bool compares_all = !is_fast || gap > not_far(num_sequences);
    if (compares || num_sequences < kQuickSequences) {
        offer(BucketPlanner().plan(problem));
        offer(PackedPlanner().plan(problem));
    }
    if (compares_all) {
        offer(InterPlanner().plan(problem));
        offer(IntraPlanner().plan(problem));
    }
    if (compares && num_sequences <= kSmall) {
        for (const int degree : problem.degrees) {
            Problem one = problem;
            one.degrees = {degree};
            if (holds_all(one)) {
                offer(PackedPlanner().plan(one));
            }
        }
    }
    if (compares && num_sequences <= (is_fast ? kSmallInAHurry : kSmall)) {
        for (const Problem& fewer : restricted(problem)) {
            offer(search(fewer, effort_, bound - problem.cost->per_iteration_seconds()));
        }
    }
    const auto ranks = static_cast<std::size_t>(problem.topology.ranks);
    const bool is_quick = ranks * num_sequences <= kQuickPhased;
    if ((compares || is_quick) && problem.topology.ranks <= kPhasedRanks &&
        num_sequences < kPhasedSequences) {
        offer(plan_by_capped_work(problem).plan);
        if (compares_all || is_quick) {
            offer(plan_by_degree_programme(problem).plan);
        }
    }
    best.lower_bound_seconds = bound;
    return best;
}

}  // namespace dcp::plan
