// What is known of an iteration when it is over, and how it is shown: a line on the console, an
// object in metrics.jsonl.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/plan/corrected_model.hpp"
#include "core/plan/plan.hpp"
#include "core/train/world.hpp"

namespace dcp::train {

// One rank's part of one step, as it was measured.
struct StepRecord {
    int step = 0;              // position in the plan
    int rank = 0;              // of the world
    double start_seconds = 0;  // since this rank had the plan; waiting comes first
    double wait_seconds = 0;   // for the peers of the step
    double communication_seconds = 0;
    double seconds = 0;  // computing and exchanging
    std::int64_t peak_bytes = 0;
};

// What predictions would have been without correction, and what is known of costs now.
struct CorrectionReport {
    std::vector<double> uncorrected_step_seconds;  // one a step; empty where nothing is predicted
    double uncorrected_makespan_seconds = 0;
    bool is_on = false;                             // planner.correct
    double pace = 1;                                // seconds over those of the model, of all steps
    std::map<int, plan::DegreeCorrection> degrees;  // by SP degree, beside the pace
    std::vector<double> speeds;                     // by rank; empty: alike
};

// A step that a rank had too little memory for.
struct MemoryShortage {
    int step = 0;  // position in the plan
    int rank = 0;
    std::int64_t missing_bytes = 0;  // at least
};

struct IterationReport {
    std::int64_t iteration = 0;
    double loss = 0;       // token mean over the global batch, weights before the update
    double grad_norm = 0;  // before clipping
    double learning_rate = 0;
    std::int64_t tokens = 0;
    std::int64_t micro_batches = 0;      // steps of the plan, over all ranks
    std::map<int, int> steps_by_degree;  // SP degree -> steps
    std::int64_t recomputing_steps = 0;  // with at least one layer that recomputes
    std::string planner;
    int num_ranks = 1;
    int replays = 0;  // how often it was planned anew, for want of memory, before it went through
    std::vector<std::int64_t> sequences;  // ids, in the order drawn
    std::vector<std::int64_t> lengths;    // tokens of each
    double seconds = 0;
    double flops = 0;
    std::int64_t peak_bytes = 0;  // of the largest rank

    // Of this rank alone.
    double steps_seconds = 0;                // from the first step to the last, waiting included
    std::optional<MemoryShortage> shortage;  // why the iteration has to be planned anew
    std::int64_t first_bad_step = std::numeric_limits<std::int32_t>::max();  // loss not finite

    // Of the plan, where one was made: what it promised. On one rank it predicts nothing.
    plan::Plan plan;
    double predicted_makespan_seconds = 0;
    double lower_bound_seconds = 0;   // that no plan of this batch beats
    double predicted_peak_bytes = 0;  // of the largest step, or of the end of the iteration

    // Of all ranks: by rank, and of each in the order of the plan.
    std::vector<StepRecord> steps;
    double makespan_seconds = 0;    // until the last rank has finished its steps
    double imbalance_ratio = 0;     // mean over ranks of idle time / makespan
    double busy_fraction_mean = 0;  // of the time that ranks compute / makespan
    double busy_fraction_variance = 0;
    double sent_bytes = 0;        // by the ranks of steps to each other
    double exchange_seconds = 0;  // of the rank that spent most of its time on that
    double plan_seconds = 0;
    double plan_exposed_seconds = 0;  // what training waited for
    std::optional<double> validation_loss;
    CorrectionReport correction;

    void read_plan(const plan::Plan& made);
    std::int64_t tokens_of(const plan::Step& step) const;
    double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
    double flops_per_second() const { return flops / seconds; }
    bool has_prediction() const { return predicted_makespan_seconds > 0; }
    // (predicted - measured) / measured.
    double makespan_error() const { return predicted_makespan_seconds / makespan_seconds - 1; }
    // How far a makespan is above the bound, as a share of it.
    double bound_gap(double makespan) const { return makespan / lower_bound_seconds - 1; }
};

// One line of metrics.jsonl (keys: docs/output.md), on request with every step. No line feed.
std::string to_json(const IterationReport& report, const Arena& arena, bool with_steps);
// One line of samples.jsonl.
std::string samples_to_json(const IterationReport& report);

// The console: a line an iteration, and below them, on a terminal, a bar that is drawn again and
// again.
class Console {
public:
    // The first rank of the world speaks, the others are silent. The bar is for one rank alone:
    // mpirun makes every output look like a terminal, and bars would fill the files that it goes
    // to.
    Console(std::int64_t iterations, double peak_flops_per_second, const World& world);
    void iteration(const IterationReport& report);
    void line(const std::string& text) const;  // anything else; ends the bar first

private:
    static std::string describe_plan(const IterationReport& report);
    std::string eta(const IterationReport& report) const;
    void draw_bar(const IterationReport& report) const;

    std::int64_t iterations_;
    double peak_flops_per_second_;
    double total_seconds_ = 0;
    bool speaks_;
    bool is_terminal_;
};

// The table of `--profile-ops`: seconds and share by operation, the rate of each that multiplies
// and its share of the peak.
std::string format_profile(const OpProfile& profile,
                           double total_seconds,
                           double peak_flops_per_second);

}  // namespace dcp::train
