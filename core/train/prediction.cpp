#include "core/train/prediction.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/units.hpp"

namespace dcp::train {

namespace {

constexpr double kClassWidth = 0.001;
constexpr std::size_t kNumClasses = 10'000;

// Of the smallest value that at least `share` of `count` values do not exceed.
std::int64_t position(std::int64_t count, double share) {
    const auto rank = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count)));
    return std::clamp<std::int64_t>(rank - 1, 0, count - 1);
}

}  // namespace

std::vector<MeasuredStep> measured_steps(const IterationReport& report) {
    std::vector<MeasuredStep> measured(report.plan.steps.size());
    for (const StepRecord& record : report.steps) {
        MeasuredStep& step = measured[static_cast<std::size_t>(record.step)];
        step.seconds = std::max(step.seconds, record.seconds);
        step.peak_bytes = std::max(step.peak_bytes, record.peak_bytes);
    }
    return measured;
}

StepErrors step_errors(const IterationReport& report) {
    StepErrors errors;
    if (!report.has_prediction()) {
        return errors;
    }
    const std::vector<MeasuredStep> measured = measured_steps(report);
    for (std::size_t index = 0; index < measured.size(); ++index) {
        const plan::Step& step = report.plan.steps[index];
        const auto bytes = static_cast<double>(measured[index].peak_bytes);
        errors.seconds.push_back((step.seconds - measured[index].seconds) /
                                 measured[index].seconds);
        errors.bytes.push_back((step.peak_bytes - bytes) / bytes);
        if (report.correction.is_on) {
            errors.uncorrected_seconds.push_back(
                report.correction.uncorrected_step_seconds[index] / measured[index].seconds - 1);
        }
    }
    return errors;
}

double absolute_quantile(std::vector<double> errors, double share) {
    if (errors.empty()) {
        return 0;
    }
    const auto middle = errors.begin() + position(static_cast<std::int64_t>(errors.size()), share);
    std::nth_element(errors.begin(), middle, errors.end(),
                     [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    return std::fabs(*middle);
}

void ErrorCounts::add(double error) {
    counts_.resize(kNumClasses);
    const double index = std::min(std::fabs(error) / kClassWidth, kNumClasses - 1.0);
    ++counts_[static_cast<std::size_t>(index)];
    ++count_;
}

double ErrorCounts::quantile(double share) const {
    if (count_ == 0) {
        return 0;
    }
    std::int64_t left = position(count_, share);
    std::size_t index = 0;
    while (left >= counts_[index]) {
        left -= counts_[index++];
    }
    return (static_cast<double>(index) + 0.5) * kClassWidth;
}

void PredictionSummary::add(const IterationReport& report) {
    const StepErrors errors = step_errors(report);
    for (std::size_t index = 0; index < errors.seconds.size(); ++index) {
        seconds_.add(errors.seconds[index]);
        bytes_.add(errors.bytes[index]);
        too_few_bytes_ += errors.bytes[index] < 0 ? 1 : 0;
    }
    for (const double error : errors.uncorrected_seconds) {
        uncorrected_seconds_.add(error);
    }
}

std::string PredictionSummary::to_string() const {
    const std::string uncorrected = uncorrected_seconds_.count() == 0
                                        ? ""
                                        : fmt::format(", without correction {:.1f} %, {:.1f} %",
                                                      100 * uncorrected_seconds_.quantile(0.5),
                                                      100 * uncorrected_seconds_.quantile(0.95));
    return fmt::format(
        "{} steps: seconds predicted to {:.1f} % (median), {:.1f} % (p95){}; bytes to {:.1f} %, "
        "{:.1f} %; {} needed more bytes than predicted",
        format_count(seconds_.count()), 100 * seconds_.quantile(0.5), 100 * seconds_.quantile(0.95),
        uncorrected, 100 * bytes_.quantile(0.5), 100 * bytes_.quantile(0.95),
        format_count(too_few_bytes_));
}

}  // namespace dcp::train
