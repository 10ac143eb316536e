#include "core/train/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/base/units.hpp"
#include "core/train/measures.hpp"

namespace dcp::train {

namespace {

using Json = nlohmann::ordered_json;

// Enough for a person and for a plot; all digits would make the file three times as long.
double to_microseconds(double seconds) {
    return std::round(seconds * 1e6) / 1e6;
}
double to_basis_points(double share) {
    return std::round(share * 1e4) / 1e4;
}

void add_ranks(Json& object, const IterationReport& report) {
    const std::vector<RankShares> shares = rank_shares(report);
    for (const auto& [key, share] :
         {std::pair("busy_fractions", &RankShares::computing),
          std::pair("communication_fractions", &RankShares::communicating),
          std::pair("waiting_fractions", &RankShares::waiting)}) {
        for (const RankShares& rank : shares) {
            object[key].push_back(to_basis_points(rank.*share));
        }
    }
}

// Factors by degree and, for those of tokens, by the tokens of a micro-batch; what stands for no
// correction is left out.
void add_correction(Json& object, const CorrectionReport& correction) {
    if (!correction.is_on) {
        return;
    }
    Json& written = object["correction"];
    written["pace"] = to_basis_points(correction.pace);
    for (const auto& [degree, factors] : correction.degrees) {
        const std::string name = std::to_string(degree);
        for (const plan::TokenFactor& one : factors.tokens) {
            written["tokens"][name][std::to_string(one.tokens)] = to_basis_points(one.factor);
        }
        written["squared_tokens"][name] = to_basis_points(factors.squared);
        for (const plan::MoreBytes& one : factors.bytes) {
            written["more_bytes"][name][std::to_string(one.tokens)] =
                static_cast<std::int64_t>(one.bytes);
        }
    }
    for (const double speed : correction.speeds) {
        written["speeds"].push_back(to_basis_points(speed));
    }
}

// Columns: the steps in the order of the plan; what ranks measured, in the order of their step's
// ranks.
Json steps_to_json(const IterationReport& report) {
    Json columns{{"ranks", Json::array()}};
    for (const plan::Step& step : report.plan.steps) {
        columns["ranks"].push_back(step.world_ranks);
        columns["sequences"].push_back(step.sequences.size());
        columns["tokens"].push_back(report.tokens_of(step));
        columns["strategy"].push_back(
            fmt::format("{}x{}", step.strategy.ulysses, step.strategy.ring));
        columns["recompute_layers"].push_back(step.recompute_layers);
        if (report.has_prediction()) {
            columns["predicted_start_seconds"].push_back(to_microseconds(step.start_seconds));
            columns["predicted_seconds"].push_back(to_microseconds(step.seconds));
            columns["predicted_bytes"].push_back(static_cast<std::int64_t>(step.peak_bytes));
        }
    }
    for (const double seconds : report.correction.uncorrected_step_seconds) {
        columns["uncorrected_seconds"].push_back(to_microseconds(seconds));
    }
    for (const char* key :
         {"start_seconds", "wait_seconds", "communication_seconds", "seconds", "bytes"}) {
        columns[key] = std::vector<Json>(report.plan.steps.size(), Json::array());
    }
    for (const StepRecord& record : report.steps) {  // by rank, as the ranks of a step are
        const auto step = static_cast<std::size_t>(record.step);
        columns["start_seconds"][step].push_back(to_microseconds(record.start_seconds));
        columns["wait_seconds"][step].push_back(to_microseconds(record.wait_seconds));
        columns["communication_seconds"][step].push_back(
            to_microseconds(record.communication_seconds));
        columns["seconds"][step].push_back(to_microseconds(record.seconds));
        columns["bytes"][step].push_back(record.peak_bytes);
    }
    return columns;
}

}  // namespace

void IterationReport::read_plan(const plan::Plan& made) {
    plan = made;
    predicted_makespan_seconds = made.makespan_seconds;
    lower_bound_seconds = made.lower_bound_seconds;
    micro_batches = static_cast<std::int64_t>(made.steps.size());
    for (const plan::Step& step : made.steps) {
        ++steps_by_degree[step.degree()];
        recomputing_steps += step.recompute_layers > 0 ? 1 : 0;
        predicted_peak_bytes = std::max(predicted_peak_bytes, step.peak_bytes);
    }
}

std::int64_t IterationReport::tokens_of(const plan::Step& step) const {
    std::int64_t sum = 0;
    for (const std::int32_t index : step.sequences) {
        sum += lengths[static_cast<std::size_t>(index)];
    }
    return sum;
}

std::string to_json(const IterationReport& report, const Arena& arena, bool with_steps) {
    Json object{{"iteration", report.iteration}};
    for (const Measure& measure : measures(report)) {
        object[std::string(measure.key)] = measure.value;
    }
    object["tokens"] = report.tokens;
    object["sequences"] = report.sequences.size();
    object["micro_batches"] = report.micro_batches;
    object["recomputing_micro_batches"] = report.recomputing_steps;
    object["planner"] = report.planner;
    if (report.replays > 0) {
        object["replays"] = report.replays;
    }
    object["peak_bytes"] = report.peak_bytes;  // whole numbers stay whole
    object["sent_bytes"] = report.sent_bytes;
    object["exchange_seconds"] = report.exchange_seconds;
    if (report.has_prediction()) {
        object["predicted_peak_bytes"] = static_cast<std::int64_t>(report.predicted_peak_bytes);
    }
    for (const auto& [degree, steps] : report.steps_by_degree) {
        object["steps_by_degree"][std::to_string(degree)] = steps;
    }
    for (int index = 0; index < kNumMemoryCategories; ++index) {
        const auto category = static_cast<MemoryCategory>(index);
        object["peak_bytes_by_category"][std::string(name(category))] = arena.peak_bytes(category);
    }
    add_ranks(object, report);
    add_correction(object, report.correction);
    if (with_steps) {
        object["steps"] = steps_to_json(report);
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

// "  plan 6 x SP 1, 3 x SP 2  busy 92 +- 1 %  exchange 4 +- 1 %  imbalance 4 +- 1 %  bound +6 %":
// only where there was something to plan.
std::string Console::describe_plan(const IterationReport& report) {
    if (report.num_ranks == 1) {
        return "";
    }
    std::string degrees;
    for (const auto& [degree, steps] : report.steps_by_degree) {
        degrees += fmt::format("{}{} x SP {}", degrees.empty() ? "" : ", ", steps, degree);
    }
    std::string text = "  plan " + degrees;
    const std::vector<RankShares> shares = rank_shares(report);
    for (const auto& [word, share] : {std::pair("busy", &RankShares::computing),
                                      std::pair("exchange", &RankShares::communicating),
                                      std::pair("imbalance", &RankShares::waiting)}) {
        const MeanVariance ranks = over_ranks(shares, share);
        text += fmt::format("  {} {:.0f} +- {:.0f} %", word, 100 * ranks.mean,
                            100 * std::sqrt(ranks.variance));
    }
    if (report.lower_bound_seconds > 0) {
        text += fmt::format("  bound {:+.0f} %", 100 * report.bound_gap(report.makespan_seconds));
    }
    return text;
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
