#include "core/train/measures.hpp"

#include <cmath>

#include "core/train/prediction.hpp"

namespace dcp::train {

namespace {

void add_of_ranks(std::vector<Measure>& list, const IterationReport& report) {
    const std::vector<RankShares> shares = rank_shares(report);
    const MeanVariance busy = over_ranks(shares, &RankShares::computing);
    const MeanVariance talking = over_ranks(shares, &RankShares::communicating);
    const MeanVariance waiting = over_ranks(shares, &RankShares::waiting);
    list.insert(
        list.end(),
        {{"ranks", "imbalance_ratio", "Mean over ranks of the share of the makespan spent waiting",
          report.imbalance_ratio},
         {"ranks", "busy_fraction_mean", "Mean over ranks of the share of the makespan computing",
          busy.mean},
         {"ranks", "busy_fraction_variance", "Its variance over ranks", busy.variance},
         {"ranks", "communication_fraction_mean",
          "Mean over ranks of the share of the makespan exchanging with the ranks of a step",
          talking.mean},
         {"ranks", "communication_fraction_variance", "Its variance over ranks", talking.variance},
         {"ranks", "waiting_fraction_mean",
          "Mean over ranks of the share of the makespan with nothing to do", waiting.mean},
         {"ranks", "waiting_fraction_variance", "Its variance over ranks", waiting.variance}});
}

void add_of_plan(std::vector<Measure>& list, const IterationReport& report) {
    const StepErrors errors = step_errors(report);
    list.insert(list.end(),
                {{"plan", "predicted_makespan_seconds", "Makespan that the plan promised",
                  report.predicted_makespan_seconds},
                 {"plan", "makespan_error", "(predicted - measured) / measured makespan",
                  report.makespan_error()},
                 {"plan", "step_seconds_error",
                  "Median over steps of |predicted - measured| / measured seconds",
                  absolute_quantile(errors.seconds, 0.5)},
                 {"plan", "step_bytes_error",
                  "Median over steps of |predicted - measured| / measured peak bytes",
                  absolute_quantile(errors.bytes, 0.5)},
                 {"memory", "predicted_peak_bytes", "Peak bytes of the largest step as predicted",
                  report.predicted_peak_bytes}});
    if (report.correction.is_on) {
        list.insert(list.end(),
                    {{"plan", "uncorrected_makespan_error",
                      "The makespan error of the prediction without correction",
                      report.correction.uncorrected_makespan_seconds / report.makespan_seconds - 1},
                     {"plan", "uncorrected_step_seconds_error",
                      "The step seconds error of the predictions without correction",
                      absolute_quantile(errors.uncorrected_seconds, 0.5)}});
    }
    if (report.lower_bound_seconds > 0) {
        list.insert(list.end(),
                    {{"plan", "lower_bound_seconds", "Makespan that no plan of this batch beats",
                      report.lower_bound_seconds},
                     {"plan", "bound_gap", "(makespan - lower bound) / lower bound",
                      report.bound_gap(report.makespan_seconds)},
                     {"plan", "predicted_bound_gap", "The same of the predicted makespan",
                      report.bound_gap(report.predicted_makespan_seconds)}});
    }
}

}  // namespace

std::vector<RankShares> rank_shares(const IterationReport& report) {
    std::vector<RankShares> shares(static_cast<std::size_t>(report.num_ranks));
    for (const StepRecord& step : report.steps) {
        RankShares& rank = shares[static_cast<std::size_t>(step.rank)];
        rank.computing += (step.seconds - step.communication_seconds) / report.makespan_seconds;
        rank.communicating += step.communication_seconds / report.makespan_seconds;
    }
    for (RankShares& rank : shares) {
        rank.waiting = 1 - rank.computing - rank.communicating;
    }
    return shares;
}

MeanVariance over_ranks(const std::vector<RankShares>& shares, double RankShares::*share) {
    const auto count = static_cast<double>(shares.size());
    MeanVariance result;
    for (const RankShares& rank : shares) {
        result.mean += rank.*share / count;
    }
    for (const RankShares& rank : shares) {
        result.variance += std::pow(rank.*share - result.mean, 2) / count;
    }
    return result;
}

std::vector<Measure> measures(const IterationReport& report) {
    std::vector<Measure> list{
        {"train", "loss", "Mean loss of the batch in nats, before the update", report.loss},
        {"train", "grad_norm", "Norm of all gradients before clipping", report.grad_norm},
        {"train", "lr", "Learning rate", report.learning_rate},
        {"speed", "seconds", "Seconds of the whole iteration", report.seconds},
        {"speed", "tokens_per_second", "Tokens trained a second, all ranks together",
         report.tokens_per_second()},
        {"speed", "flops_per_second", "Operations a second, as counted for MFU",
         report.flops_per_second()},
        {"speed", "makespan_seconds", "Until the last rank has finished its steps",
         report.makespan_seconds},
        {"memory", "peak_bytes", "Highest use of the arena, on the rank that used most",
         static_cast<double>(report.peak_bytes)},
        {"plan", "plan_seconds", "Seconds that making the plan took", report.plan_seconds},
        {"plan", "plan_exposed_seconds", "Seconds that training waited for the plan",
         report.plan_exposed_seconds}};
    add_of_ranks(list, report);
    if (report.has_prediction()) {
        add_of_plan(list, report);
    }
    if (report.validation_loss) {
        list.push_back({"train", "validation_loss", "Mean loss in nats of the held-out sequences",
                        *report.validation_loss});
    }
    return list;
}

}  // namespace dcp::train
