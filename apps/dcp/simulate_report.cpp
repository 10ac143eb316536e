#include "apps/dcp/simulate_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/units.hpp"

namespace dcp {

namespace {

// Throughput over that of the first planner with as many ranks.
double speed_up(const std::vector<sim::RunReport>& reports, const sim::RunReport& report) {
    const auto base = std::find_if(reports.begin(), reports.end(),
                                   [&](const auto& other) { return other.ranks == report.ranks; });
    return report.tokens_per_second() / base->tokens_per_second();
}

// Throughput of a rank over that of the same planner's first run, which has the fewest ranks.
double efficiency(const std::vector<sim::RunReport>& reports, const sim::RunReport& report) {
    const auto base = std::find_if(reports.begin(), reports.end(), [&](const auto& other) {
        return other.planner == report.planner;
    });
    return report.tokens_per_second() / report.ranks / (base->tokens_per_second() / base->ranks);
}

std::string histogram(const sim::RunReport& report) {
    std::string text;
    for (const auto& [degree, tokens] : report.tokens_by_degree) {
        text += fmt::format("  {}: {:.1f}%", degree,
                            100 * static_cast<double>(tokens) / static_cast<double>(report.tokens));
    }
    return text;
}

}  // namespace

std::string simulate_table(const std::vector<sim::RunReport>& reports) {
    std::string text =
        fmt::format("{:>6} {:<12} {:>11} {:>12} {:>8} {:>6} {:>15} {:>9} {:>7} {:>9} {:>6}\n",
                    "ranks", "planner", "iteration", "tokens/s", "speed-up", "effic.",
                    "busy (variance)", "imbalance", "gap", "memory", "MFU");
    bool is_exposed = false;
    for (const sim::RunReport& report : reports) {
        const auto count = static_cast<double>(report.iterations.size());
        const std::string utilization =
            report.utilization > 0 ? fmt::format("{:.1f}%", 100 * report.utilization) : "-";
        text += fmt::format(
            "{:>6} {:<12} {:>9.4f} s {:>12.0f} {:>7.2f}x {:>6.3f} {:>6.3f} ({:.0e}) {:>9.4f} "
            "{:>6.2f}% "
            "{:>9} {:>6}\n",
            report.ranks, report.planner, report.seconds / count, report.tokens_per_second(),
            speed_up(reports, report), efficiency(reports, report), report.busy_mean,
            report.busy_variance, report.imbalance_ratio, 100 * report.gap,
            format_bytes(static_cast<std::int64_t>(report.peak_bytes)), utilization);
        is_exposed = is_exposed || report.exposed_seconds > 0;
    }
    text += "\n";
    for (const sim::RunReport& report : reports) {
        text +=
            fmt::format("{:>6} {:<12} tokens by SP degree:{}; {:.1f}% recomputed; plans {} each",
                        report.ranks, report.planner, histogram(report),
                        100 * report.recomputed_share, format_seconds(report.plan_seconds));
        text += report.exposed_seconds > 0 ? fmt::format(", {} of the run not hidden\n",
                                                         format_seconds(report.exposed_seconds))
                                           : ", hidden\n";
        if (report.guessed_steps > 0) {
            text += fmt::format(
                "{:>19} {} of {} micro-batches lie outside of what was measured: careful guesses\n",
                "", report.guessed_steps, report.steps);
        }
    }
    return text;
}

std::string simulate_csv(const std::vector<sim::RunReport>& reports) {
    std::string text =
        "ranks,planner,iterations,sequences,tokens,seconds,tokens_per_second,speed_up,efficiency,"
        "busy_mean,busy_variance,imbalance_ratio,gap,peak_bytes,mean_peak_bytes,budget_bytes,mfu,"
        "recomputed_share,once_seconds,exposed_seconds,plan_seconds\n";
    for (const sim::RunReport& report : reports) {
        text += fmt::format(
            "{},{},{},{},{},{:.9g},{:.9g},{:.6f},{:.6f},{:.6f},{:.6g},{:.6f},{:.6f},"
            "{:.0f},{:.0f},{:.0f},{:.6f},{:.6f},{:.6g},{:.6g},{:.6g}\n",
            report.ranks, report.planner, report.iterations.size(), report.sequences, report.tokens,
            report.seconds, report.tokens_per_second(), speed_up(reports, report),
            efficiency(reports, report), report.busy_mean, report.busy_variance,
            report.imbalance_ratio, report.gap, report.peak_bytes, report.mean_peak_bytes,
            report.budget_bytes, report.utilization, report.recomputed_share, report.once_seconds,
            report.exposed_seconds, report.plan_seconds);
    }
    return text;
}

std::string simulate_json(const std::string& name, const std::vector<sim::RunReport>& reports) {
    std::string text;
    for (const sim::RunReport& report : reports) {
        auto iterations = nlohmann::ordered_json::array();
        for (const sim::IterationRecord& one : report.iterations) {
            iterations.push_back({{"sequences", one.sequences},
                                  {"tokens", one.tokens},
                                  {"seconds", one.seconds},
                                  {"makespan_seconds", one.steps_seconds},
                                  {"predicted_seconds", one.predicted_seconds},
                                  {"lower_bound_seconds", one.bound_seconds},
                                  {"imbalance_ratio", one.imbalance_ratio},
                                  {"busy_fraction_mean", one.busy_mean},
                                  {"busy_fraction_variance", one.busy_variance},
                                  {"peak_bytes", one.peak_bytes},
                                  {"plan_seconds", one.plan_seconds},
                                  {"plan_exposed_seconds", one.exposed_seconds}});
        }
        auto by_degree = nlohmann::ordered_json::object();
        for (const auto& [degree, tokens] : report.tokens_by_degree) {
            by_degree[std::to_string(degree)] = tokens;
        }
        auto by_depth = nlohmann::ordered_json::object();
        for (const auto& [layers, steps] : report.steps_by_recompute_layers) {
            by_depth[std::to_string(layers)] = steps;
        }
        text += nlohmann::ordered_json{{"simulated", true},
                                       {"name", name},
                                       {"ranks", report.ranks},
                                       {"planner", report.planner},
                                       {"seconds", report.seconds},
                                       {"tokens", report.tokens},
                                       {"tokens_per_second", report.tokens_per_second()},
                                       {"tokens_by_degree", by_degree},
                                       {"steps_by_recompute_layers", by_depth},
                                       {"iterations", iterations}}
                    .dump() +
                "\n";
    }
    return text;
}

}  // namespace dcp
