#include "core/train/prometheus.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/train/measures.hpp"

namespace dcp::train {

namespace {

// The text format spells them so.
std::string number(double value) {
    if (std::isnan(value)) {
        return "NaN";
    }
    if (std::isinf(value)) {
        return value > 0 ? "+Inf" : "-Inf";
    }
    return fmt::format("{}", value);
}

std::string head(std::string_view name, std::string_view type, std::string_view help) {
    return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

std::string sample(std::string_view name, std::string_view type, std::string_view help, double v) {
    return head(name, type, help) + fmt::format("{} {}\n", name, number(v));
}

std::string ranks_gauge(std::string_view name,
                        std::string_view help,
                        const std::vector<RankShares>& shares,
                        double RankShares::*share) {
    std::string text = head(name, "gauge", help);
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        text += fmt::format("{}{{rank=\"{}\"}} {}\n", name, rank, number(shares[rank].*share));
    }
    return text;
}

}  // namespace

PrometheusMetrics::PrometheusMetrics(std::string planner, int num_ranks)
    : planner_(std::move(planner)), num_ranks_(num_ranks) {}

void PrometheusMetrics::add(const IterationReport& report) {
    last_ = report;
    ++iterations_;
    tokens_ += report.tokens;
    sequences_ += static_cast<std::int64_t>(report.sequences.size());
    for (const auto& [degree, steps] : report.steps_by_degree) {
        steps_by_degree_[degree] += steps;
    }
    seconds_ += report.seconds;
    plan_exposed_seconds_ += report.plan_exposed_seconds;
    sent_bytes_ += report.sent_bytes;
    validation_loss_ = report.validation_loss ? report.validation_loss : validation_loss_;
    last_->validation_loss = validation_loss_;
}

std::string PrometheusMetrics::text() const {
    std::string text =
        head("dcp_run_info", "gauge", "What runs here; always 1") +
        fmt::format("dcp_run_info{{planner=\"{}\",ranks=\"{}\"}} 1\n", planner_, num_ranks_);
    text += sample("dcp_iterations_total", "counter", "Iterations trained",
                   static_cast<double>(iterations_));
    text += sample("dcp_tokens_total", "counter", "Tokens trained", static_cast<double>(tokens_));
    text += sample("dcp_sequences_total", "counter", "Sequences trained",
                   static_cast<double>(sequences_));
    text += sample("dcp_iteration_seconds_total", "counter", "Seconds of all iterations", seconds_);
    text += sample("dcp_plan_exposed_seconds_total", "counter",
                   "Seconds that training waited for plans", plan_exposed_seconds_);
    text += sample("dcp_sent_bytes_total", "counter",
                   "Bytes that the ranks of steps sent each other", sent_bytes_);
    text += head("dcp_steps_total", "counter", "Steps by the number of ranks that shared one");
    for (const auto& [degree, steps] : steps_by_degree_) {
        text += fmt::format("dcp_steps_total{{degree=\"{}\"}} {}\n", degree, steps);
    }
    if (!last_) {
        return text;
    }
    text += sample("dcp_iteration", "gauge", "Number of the last iteration",
                   static_cast<double>(last_->iteration));
    for (const Measure& measure : measures(*last_)) {
        text += sample(fmt::format("dcp_{}", measure.key), "gauge", measure.help, measure.value);
    }
    const std::vector<RankShares> shares = rank_shares(*last_);
    text += ranks_gauge("dcp_rank_busy_fraction", "Share of the makespan that a rank computed",
                        shares, &RankShares::computing);
    text += ranks_gauge("dcp_rank_communication_fraction",
                        "Share of the makespan that a rank exchanged with those of its steps",
                        shares, &RankShares::communicating);
    text += ranks_gauge("dcp_rank_waiting_fraction",
                        "Share of the makespan that a rank had nothing to do", shares,
                        &RankShares::waiting);
    return text;
}

}  // namespace dcp::train
