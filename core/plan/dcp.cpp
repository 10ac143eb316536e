// The planner of this program: the shortest of what its own search and all other planners find.
#include <utility>

#include "core/plan/bound.hpp"
#include "core/plan/planners.hpp"
#include "core/plan/search.hpp"

namespace dcp::plan {

namespace {

// In a hurry the bound is a guide, and a plan near it is not compared with others where comparing
// takes as long as the search.
constexpr double kFastPrecision = 2e-3;

double near_enough(std::size_t num_sequences) {
    if (num_sequences < 256) {
        return 1;
    }
    return num_sequences < 2500 ? 1.05 : 1.2;
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
    if (!is_fast || best.makespan_seconds > near_enough(problem.sequences.size()) * bound) {
        offer(BucketPlanner().plan(problem));
        offer(PackedPlanner().plan(problem));
        offer(InterPlanner().plan(problem));
    }
    if (!is_fast) {
        offer(IntraPlanner().plan(problem));
    }
    best.lower_bound_seconds = bound;
    return best;
}

}  // namespace dcp::plan
