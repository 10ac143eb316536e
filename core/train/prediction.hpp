// Plan against reality: what every step of an iteration was predicted to take and took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/train/report.hpp"

namespace dcp::train {

// A step as a whole: its ranks start together, so it takes as long as the slowest of them, and what
// it needs is what the largest of them needs.
struct MeasuredStep {
    double seconds = 0;  // waiting is not part of it
    std::int64_t peak_bytes = 0;
};

// One for every step of the plan.
std::vector<MeasuredStep> measured_steps(const IterationReport& report);

// (predicted - measured) / measured; positive where the step was cheaper than predicted.
struct StepErrors {
    std::vector<double> seconds;  // one for every step of the plan
    std::vector<double> bytes;
    // Of the predictions without correction; empty where there is none (planner.correct).
    std::vector<double> uncorrected_seconds;
};

// Nothing where the plan predicts nothing (on one rank without a cost model).
StepErrors step_errors(const IterationReport& report);

// Of the absolute values; 0 of none. `share` 0.5: the median.
double absolute_quantile(std::vector<double> errors, double share);

// The errors of a whole run in bounded memory: counted in classes 0.1 % wide, up to 1000 %.
class ErrorCounts {
public:
    void add(double error);
    std::int64_t count() const { return count_; }
    double quantile(double share) const;  // of the absolute values, to 0.1 %

private:
    std::vector<std::int64_t> counts_;
    std::int64_t count_ = 0;
};

class PredictionSummary {
public:
    void add(const IterationReport& report);
    bool empty() const { return seconds_.count() == 0; }
    // "1,200 steps: seconds predicted to 3.1 % (median), 12.0 % (p95); ..."
    std::string to_string() const;

private:
    ErrorCounts seconds_;
    ErrorCounts uncorrected_seconds_;
    ErrorCounts bytes_;
    std::int64_t too_few_bytes_ = 0;  // steps that needed more than predicted
};

}  // namespace dcp::train
