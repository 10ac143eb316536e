#include "tests/bench/plan_measure.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/lp/lp_bound.hpp"
#include "core/plan/search.hpp"
#include "core/plan/validate.hpp"

namespace dcp::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLongerSearches = 10;
// The long search has so many times the starts and moves, and drafts that are improved much.
constexpr int kMoreStarts = 10;
constexpr int kMoreMoves = 5;
constexpr std::size_t kMoreDrafts = 24;
constexpr double kLessMemory = 0.0015;  // each search has so much less than the one before

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

Bounds bounds_of(const plan::Problem& problem) {
    Bounds bounds;
    const Clock::time_point start = Clock::now();
    const plan::LowerBounds cheap = plan::lower_bounds(problem);
    bounds.plan_seconds = seconds_since(start);
    bounds.area = std::max(cheap.area_seconds, cheap.longest_seconds);
    bounds.slots = std::max(bounds.area, cheap.slots_seconds);
    return bounds;
}

// The best plan of the batch is where the search for the bound may end.
void add_lp_bound(const plan::Problem& problem, Bounds bounds, std::vector<Measurement>& of_batch) {
    double known = std::numeric_limits<double>::infinity();
    for (const Measurement& m : of_batch) {
        known = std::min(known, m.makespan);
    }
    const Clock::time_point start = Clock::now();
    bounds.lp = plan::lp::lower_bound_seconds(problem, known);
    bounds.lp_seconds = seconds_since(start);
    for (Measurement& m : of_batch) {
        m.bounds = bounds;
    }
}

}  // namespace

Contender own_planner(const std::string& name) {
    const std::shared_ptr<const plan::Planner> planner = plan::make_planner(name);
    return {.name = name, .plan = [planner](const plan::Problem& problem) {
                return PhasedPlan{.plan = planner->plan(problem)};
            }};
}

Contender ours(plan::Effort effort) {
    const std::shared_ptr<const plan::Planner> planner =
        plan::make_planner("dcp", {.effort = effort});
    return {.name = effort == plan::Effort::kFast ? "dcp fast" : "dcp background",
            .plan = [planner](const plan::Problem& problem) {
                return PhasedPlan{.plan = planner->plan(problem)};
            }};
}

namespace {

plan::Plan long_plan(const plan::Problem& problem) {
    plan::SearchBudget budget = plan::budget_of(plan::Effort::kBackground, problem, 1);
    const std::vector<plan::ArrangementStart> starts = budget.arrangements;
    for (int again = 1; again < kMoreStarts; ++again) {
        budget.arrangements.insert(budget.arrangements.end(), starts.begin(), starts.end());
    }
    budget.kept = std::max(budget.kept, kMoreDrafts / 2);
    budget.finalists = kMoreDrafts;
    budget.moves_a_sequence *= kMoreMoves;
    budget.final_moves_a_sequence *= kMoreMoves;
    return plan::search(
        problem, budget,
        plan::lower_bounds(problem).best_seconds() - problem.cost->per_iteration_seconds());
}

}  // namespace

Contender longer_search() {
    const std::shared_ptr<const plan::Planner> planner = plan::make_planner("dcp");
    return {.name = "dcp longer", .plan = [planner](const plan::Problem& problem) {
                PhasedPlan best{.plan = planner->plan(problem)};
                const auto offer = [&best](plan::Plan plan) {
                    if (plan.makespan_seconds < best.plan.makespan_seconds) {
                        best.plan = std::move(plan);
                    }
                };
                offer(long_plan(problem));
                const std::vector<int> narrow = plan::power_of_two_degrees(problem.topology.ranks);
                for (int search = 1; search < kLongerSearches; ++search) {
                    plan::Problem harder = problem;
                    harder.memory_budget_bytes *= 1 - kLessMemory * search;
                    if (search % 2 == 1 && narrow.back() == problem.degrees.back()) {
                        std::erase_if(harder.degrees, [&](int degree) {
                            return std::find(narrow.begin(), narrow.end(), degree) == narrow.end();
                        });
                    }
                    try {
                        offer(planner->plan(harder));
                    } catch (const PlanError&) {
                        continue;  // a sequence needs all the memory there is
                    }
                }
                return best;
            }};
}

std::vector<Contender> rivals(const FlexSpPlanner::Options& flexsp) {
    const std::vector<std::shared_ptr<const Rival>> planners = {
        std::make_shared<FlexSpPlanner>(flexsp), std::make_shared<FcpPlanner>(),
        std::make_shared<MegatronPlanner>()};
    std::vector<Contender> contenders;
    for (const auto& planner : planners) {
        contenders.push_back(
            {.name = std::string(planner->name()),
             .plan = [planner](const plan::Problem& problem) { return planner->phased(problem); }});
    }
    return contenders;
}

double Bounds::best() const {
    return std::max({area, slots, lp});
}

void measure(const Source& source,
             const Case& what,
             Batches batches,
             const std::vector<Contender>& contenders,
             bool with_lp,
             const std::function<void(const std::vector<Measurement>&)>& on_batch) {
    const std::vector<plan::Problem> problems =
        problems_of(source, what, batches.first + batches.count);
    for (int batch = batches.first; batch < batches.first + batches.count; ++batch) {
        const plan::Problem& problem = problems[static_cast<std::size_t>(batch)];
        const Bounds bounds = bounds_of(problem);
        std::vector<Measurement> of_batch;
        for (const Contender& contender : contenders) {
            const Clock::time_point start = Clock::now();
            const PhasedPlan made = contender.plan(problem);
            const double plan_seconds = seconds_since(start);
            plan::validate(problem, made.plan);
            of_batch.push_back({.lengths = source.name(),
                                .what = what,
                                .batch = batch,
                                .planner = contender.name,
                                .makespan = made.plan.makespan_seconds,
                                .barrier_seconds = made.barrier_seconds,
                                .plan_seconds = plan_seconds,
                                .bounds = bounds});
        }
        if (with_lp) {
            add_lp_bound(problem, bounds, of_batch);
        }
        on_batch(of_batch);
    }
}

std::string to_csv(const std::vector<Measurement>& measurements) {
    std::string text =
        "lengths,ranks,sequences,degrees,recompute,batch,planner,makespan_seconds,barrier_seconds,"
        "plan_seconds,"
        "area_seconds,slots_seconds,lp_seconds,cheap_bounds_took_seconds,lp_took_seconds\n";
    for (const Measurement& m : measurements) {
        text += fmt::format("{},{},{},{},{},{},{},{},{},{:.6f},{},{},{},{:.6f},{:.6f}\n", m.lengths,
                            m.what.ranks, m.what.sequences, m.what.any_degree ? "any" : "pow2",
                            m.what.recompute ? "yes" : "no", m.batch, m.planner, m.makespan,
                            m.barrier_seconds, m.plan_seconds, m.bounds.area, m.bounds.slots,
                            m.bounds.lp, m.bounds.plan_seconds, m.bounds.lp_seconds);
    }
    return text;
}

}  // namespace dcp::bench
