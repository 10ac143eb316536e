// Runs planners on the batches of a case and keeps what the tables and the CSV file show.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/plan_cases.hpp"
#include "tests/bench/rivals/rivals.hpp"

#include "core/plan/planner.hpp"

namespace dcp::bench {

struct Contender {
    std::string name;
    std::function<PhasedPlan(const plan::Problem&)> plan;
};

Contender ours(plan::Effort effort);  // "dcp fast", "dcp background"
// One search with ten times the starts and five times the moves, and ten background searches of
// problems whose plans are plans of the one asked for: a little less memory, and powers of two
// only. What they find more is what the default search misses.
Contender longer_search();
Contender own_planner(const std::string& name);
// "flexsp", "fcp" and "megatron".
std::vector<Contender> rivals(const FlexSpPlanner::Options& flexsp);

struct Bounds {  // seconds of an iteration that no plan beats
    double area = 0;
    double slots = 0;
    double lp = 0;            // 0: not computed
    double plan_seconds = 0;  // what area and slots took
    double lp_seconds = 0;

    double best() const;
};

struct Measurement {
    std::string lengths;
    Case what;
    int batch = 0;
    std::string planner;
    double makespan = 0;
    double barrier_seconds = 0;  // makespan with a barrier after each phase; 0: has no phases
    double plan_seconds = 0;     // wall clock
    Bounds bounds;

    double gap() const { return makespan / bounds.best(); }  // 1: the plan is optimal
    double gap_over_slots() const { return makespan / std::max(bounds.area, bounds.slots); }
};

struct Batches {  // of those that are drawn
    int first = 0;
    int count = 100;
};

// Plans every batch with every contender, and validates the plans (an invalid one ends the run).
// `on_batch` gets the measurements of each batch as soon as they are there.
void measure(const Source& source,
             const Case& what,
             Batches batches,
             const std::vector<Contender>& contenders,
             bool with_lp,
             const std::function<void(const std::vector<Measurement>&)>& on_batch);

// One line a measurement, with a head.
std::string to_csv(const std::vector<Measurement>& measurements);

}  // namespace dcp::bench
