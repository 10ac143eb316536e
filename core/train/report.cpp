#include "core/train/report.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/base/units.hpp"

namespace dcp::train {

void IterationReport::read_plan(const plan::Plan& plan) {
    predicted_makespan_seconds = plan.makespan_seconds;
    lower_bound_seconds = plan.lower_bound_seconds;
    micro_batches = static_cast<std::int64_t>(plan.steps.size());
    for (const plan::Step& step : plan.steps) {
        ++steps_by_degree[step.degree()];
        recomputing_steps += step.recompute_layers > 0 ? 1 : 0;
        predicted_peak_bytes = std::max(predicted_peak_bytes, step.peak_bytes);
    }
}

std::string to_json(const IterationReport& report, const Arena& arena) {
    nlohmann::ordered_json object{{"iteration", report.iteration},
                                  {"loss", report.loss},
                                  {"grad_norm", report.grad_norm},
                                  {"lr", report.learning_rate},
                                  {"tokens", report.tokens},
                                  {"sequences", report.sequences.size()},
                                  {"micro_batches", report.micro_batches},
                                  {"recomputing_micro_batches", report.recomputing_steps},
                                  {"seconds", report.seconds},
                                  {"tokens_per_second", report.tokens_per_second()},
                                  {"flops_per_second", report.flops_per_second()},
                                  {"peak_bytes", report.peak_bytes},
                                  {"planner", report.planner},
                                  {"makespan_seconds", report.makespan_seconds},
                                  {"imbalance_ratio", report.imbalance_ratio},
                                  {"busy_fraction_mean", report.busy_fraction_mean},
                                  {"busy_fraction_variance", report.busy_fraction_variance},
                                  {"sent_bytes", report.sent_bytes},
                                  {"exchange_seconds", report.exchange_seconds},
                                  {"plan_seconds", report.plan_seconds},
                                  {"plan_exposed_seconds", report.plan_exposed_seconds}};
    for (const auto& [degree, steps] : report.steps_by_degree) {
        object["steps_by_degree"][std::to_string(degree)] = steps;
    }
    for (int index = 0; index < kNumMemoryCategories; ++index) {
        const auto category = static_cast<MemoryCategory>(index);
        object["peak_bytes_by_category"][std::string(name(category))] = arena.peak_bytes(category);
    }
    if (report.predicted_makespan_seconds > 0) {
        object["predicted_makespan_seconds"] = report.predicted_makespan_seconds;
        object["lower_bound_seconds"] = report.lower_bound_seconds;
        object["predicted_peak_bytes"] = static_cast<std::int64_t>(report.predicted_peak_bytes);
    }
    if (report.validation_loss) {
        object["validation_loss"] = *report.validation_loss;
    }
    return object.dump();
}

std::string samples_to_json(const IterationReport& report) {
    return nlohmann::ordered_json{{"iteration", report.iteration}, {"sequences", report.sequences}}
        .dump();
}

Console::Console(std::int64_t iterations, double peak_flops_per_second, const World& world)
    : iterations_(iterations),
      peak_flops_per_second_(peak_flops_per_second),
      speaks_(world.is_first()),
      is_terminal_(world.size() == 1 && isatty(STDOUT_FILENO) == 1) {}

void Console::line(const std::string& text) const {
    if (!speaks_) {
        return;
    }
    fmt::print("{}{}\n", is_terminal_ ? "\r\x1b[K" : "", text);
    std::fflush(stdout);
}

std::string Console::eta(const IterationReport& report) const {
    const double mean_seconds = total_seconds_ / static_cast<double>(report.iteration);
    return format_seconds(mean_seconds * static_cast<double>(iterations_ - report.iteration));
}

// "  plan 6 x SP 1, 3 x SP 2  imbalance 4 %": only where there was something to plan.
std::string Console::describe_plan(const IterationReport& report) {
    if (report.num_ranks == 1) {
        return "";
    }
    std::string degrees;
    for (const auto& [degree, steps] : report.steps_by_degree) {
        degrees += fmt::format("{}{} x SP {}", degrees.empty() ? "" : ", ", steps, degree);
    }
    return fmt::format("  plan {}  imbalance {:.0f} %", degrees, 100 * report.imbalance_ratio);
}

void Console::iteration(const IterationReport& report) {
    total_seconds_ += report.seconds;
    const std::string validation =
        report.validation_loss ? fmt::format(", validation {:.4f}", *report.validation_loss) : "";
    line(fmt::format(
        "iteration {}/{}  loss {:.4f}{}  norm {:.3f}  lr {:.2e}  {} tokens/s  {:.3f} TFLOP/s "
        "({:.0f} %)  peak {}{}  ETA {}",
        report.iteration, iterations_, report.loss, validation, report.grad_norm,
        report.learning_rate, format_count(static_cast<std::int64_t>(report.tokens_per_second())),
        report.flops_per_second() * 1e-12, 100 * report.flops_per_second() / peak_flops_per_second_,
        format_bytes(report.peak_bytes), describe_plan(report), eta(report)));
    if (speaks_ && is_terminal_) {
        draw_bar(report);
    }
}

void Console::draw_bar(const IterationReport& report) const {
    constexpr std::int64_t kWidth = 40;
    const std::int64_t filled = kWidth * report.iteration / iterations_;
    fmt::print("[{:#<{}}{:.<{}}] {} %", "", filled, "", kWidth - filled,
               100 * report.iteration / iterations_);
    if (report.iteration == iterations_) {
        fmt::print("\n");
    }
    std::fflush(stdout);
}

std::string format_profile(const OpProfile& profile,
                           double total_seconds,
                           double peak_flops_per_second) {
    std::vector<std::pair<std::string, OpProfile::Entry>> rows(profile.entries().begin(),
                                                               profile.entries().end());
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    std::string table = fmt::format("{:<26}{:>10}{:>9}{:>9}{:>12}{:>10}\n", "operation", "seconds",
                                    "share", "calls", "GFLOP/s", "of peak");
    double measured = 0;
    double flops = 0;
    const auto add_row = [&](std::string_view op, double seconds, std::string_view calls,
                             double row_flops) {
        table += fmt::format("{:<26}{:>10.3f}{:>8.1f}%{:>9}", op, seconds,
                             100 * seconds / total_seconds, calls);
        if (row_flops > 0) {
            table += fmt::format("{:>12.1f}{:>9.0f}%", row_flops / seconds * 1e-9,
                                 100 * row_flops / seconds / peak_flops_per_second);
        }
        table += '\n';
    };
    for (const auto& [op, entry] : rows) {
        measured += entry.seconds;
        flops += entry.flops;
        add_row(op, entry.seconds, std::to_string(entry.calls), entry.flops);
    }
    add_row("(between operations)", total_seconds - measured, "", 0);
    add_row("all", total_seconds, "", flops);
    return table;
}

}  // namespace dcp::train
