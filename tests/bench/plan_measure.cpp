#include "tests/bench/plan_measure.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "core/plan/bound.hpp"
#include "core/plan/lp/lp_bound.hpp"
#include "core/plan/validate.hpp"

namespace dcp::bench {

namespace {

using Clock = std::chrono::steady_clock;

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

std::vector<Contender> both_efforts() {
    return {
        {.name = "dcp fast", .planner = plan::make_planner("dcp", {.effort = plan::Effort::kFast})},
        {.name = "dcp background",
         .planner = plan::make_planner("dcp", {.effort = plan::Effort::kBackground})}};
}

double Bounds::best() const {
    return std::max({area, slots, lp});
}

std::vector<Measurement> measure(const Source& source,
                                 const Case& what,
                                 int batches,
                                 const std::vector<Contender>& contenders,
                                 bool with_lp) {
    std::vector<Measurement> measurements;
    int batch = 0;
    for (const plan::Problem& problem : problems_of(source, what, batches)) {
        Bounds bounds = bounds_of(problem);
        std::vector<Measurement> of_batch;
        for (const Contender& contender : contenders) {
            const Clock::time_point start = Clock::now();
            const plan::Plan plan = contender.planner->plan(problem);
            const double plan_seconds = seconds_since(start);
            plan::validate(problem, plan);
            of_batch.push_back({.lengths = source.name(),
                                .what = what,
                                .batch = batch,
                                .planner = contender.name,
                                .makespan = plan.makespan_seconds,
                                .plan_seconds = plan_seconds,
                                .bounds = bounds});
        }
        if (with_lp) {
            add_lp_bound(problem, bounds, of_batch);
        }
        measurements.insert(measurements.end(), of_batch.begin(), of_batch.end());
        ++batch;
    }
    return measurements;
}

std::string to_csv(const std::vector<Measurement>& measurements) {
    std::string text =
        "lengths,ranks,sequences,degrees,recompute,batch,planner,makespan_seconds,plan_seconds,"
        "area_seconds,slots_seconds,lp_seconds,cheap_bounds_took_seconds,lp_took_seconds\n";
    for (const Measurement& m : measurements) {
        text += fmt::format("{},{},{},{},{},{},{},{},{:.6f},{},{},{},{:.6f},{:.6f}\n", m.lengths,
                            m.what.ranks, m.what.sequences, m.what.any_degree ? "any" : "pow2",
                            m.what.recompute ? "yes" : "no", m.batch, m.planner, m.makespan,
                            m.plan_seconds, m.bounds.area, m.bounds.slots, m.bounds.lp,
                            m.bounds.plan_seconds, m.bounds.lp_seconds);
    }
    return text;
}

}  // namespace dcp::bench
