#include "core/train/cost_learner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/plan/topology.hpp"
#include "core/train/prediction.hpp"

namespace dcp::train {

namespace {

// Of a step by the corrected costs: on ranks of speed 1, and on those that ran it.
struct Predicted {
    double at_speed_one = 0;
    double on_its_ranks = 0;
};

Predicted predict(const plan::Problem& problem, const plan::Step& step) {
    const plan::Load load = load_of(problem, step.sequences);
    return {problem.cost->cost(load, step.strategy, step.recompute_layers).seconds(),
            cost_of(problem, step).seconds()};
}

std::vector<StepSample> step_samples(const plan::Problem& corrected,
                                     const IterationReport& report) {
    const std::vector<MeasuredStep> measured = measured_steps(report);
    std::vector<StepSample> samples;
    for (std::size_t index = 0; index < measured.size(); ++index) {
        const plan::Step& step = report.plan.steps[index];
        const Predicted predicted = predict(corrected, step);
        samples.push_back(
            {.load = load_of(corrected, step.sequences),
             .strategy = step.strategy,
             .recompute_layers = step.recompute_layers,
             .seconds = measured[index].seconds * predicted.at_speed_one / predicted.on_its_ranks});
    }
    return samples;
}

// `given`: with the corrected model and the speeds that were given.
std::vector<ComputeSample> compute_samples(const plan::Problem& given,
                                           const IterationReport& report) {
    std::vector<ComputeSample> samples;
    for (const StepRecord& record : report.steps) {
        const plan::Step& step = report.plan.steps[static_cast<std::size_t>(record.step)];
        samples.push_back(
            {.rank = record.rank,
             .step = record.step,
             .seconds = record.seconds - record.communication_seconds,
             .predicted_seconds = step.degree() == 1 ? predict(given, step).on_its_ranks : 0});
    }
    return samples;
}

// What was given and what was learned are each a speed; together they shall be one too.
void scale_speeds(plan::Problem& problem, const std::vector<double>& factors) {
    std::vector<double>& speeds = problem.topology.speeds;
    speeds.resize(std::max(speeds.size(), factors.size()), 1.0);
    for (std::size_t rank = 0; rank < factors.size(); ++rank) {
        speeds[rank] =
            std::clamp(speeds[rank] * factors[rank], plan::kLeastSpeed, plan::kMostSpeed);
    }
}

}  // namespace

bool is_clear_slowness(double slowness) {
    constexpr double kClear = 1.1;
    return slowness > kClear || slowness < 1 / kClear;
}

CostLearner::CostLearner(std::vector<int> degrees, int ranks, bool corrects)
    : corrects_(corrects), correction_(std::move(degrees)), speeds_(ranks) {}

void CostLearner::correct(plan::Problem& problem) const {
    problem.cost = correction_.corrected(problem.cost, problem.degrees, corrects_);
    if (corrects_) {
        scale_speeds(problem, speeds_.speeds());
    }
}

void CostLearner::set_processors_shared() {
    learns_speeds_ = false;
    correction_.keep_shape();
}

void CostLearner::start(std::vector<double> slowness, const std::vector<double>& speeds) {
    if (!corrects_ || slowness.empty()) {
        return;
    }
    double sum = 0;
    for (std::size_t rank = 0; rank < slowness.size(); ++rank) {
        slowness[rank] = std::log(slowness[rank] * (speeds.empty() ? 1 : speeds[rank]));
        sum += slowness[rank];
    }
    const double mean = sum / static_cast<double>(slowness.size());
    if (is_clear_slowness(std::exp(mean))) {
        correction_.start_pace(std::exp(mean));
    }
    for (double& log : slowness) {
        log -= mean;
    }
    if (learns_speeds_) {
        speeds_.start(slowness);
    }
}

void CostLearner::learn(const plan::Problem& problem, IterationReport& report) {
    if (!report.has_prediction()) {
        return;
    }
    const plan::Plan uncorrected = plan::predicted(problem, report.plan.steps);
    report.correction.uncorrected_makespan_seconds = uncorrected.makespan_seconds;
    for (const plan::Step& step : uncorrected.steps) {
        report.correction.uncorrected_step_seconds.push_back(step.seconds);
    }
    if (!corrects_) {
        return;
    }
    report.correction.is_on = true;
    if (report.iteration > 1) {  // the first also builds caches and touches memory
        learn_from(problem, report);
    }
    report.correction.pace = correction_.pace();
    report.correction.degrees = correction_.shape();
    report.correction.speeds = speeds_.speeds();
}

void CostLearner::learn_from(const plan::Problem& problem, const IterationReport& report) {
    plan::Problem given = problem;
    given.cost = correction_.corrected(problem.cost, problem.degrees, true);
    if (learns_speeds_) {
        speeds_.learn(compute_samples(given, report));
    }
    scale_speeds(given, speeds_.speeds());
    correction_.learn(*problem.cost, step_samples(given, report));
}

}  // namespace dcp::train
