#include "apps/dcp/plan_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/units.hpp"
#include "core/plan/statistics.hpp"

namespace dcp {

namespace {

constexpr int kColumns = 72;  // of the picture
constexpr int kRows = 16;

// Planners in the order they first appear.
std::vector<std::string> planners_of(const std::vector<PlanRecord>& records) {
    std::vector<std::string> names;
    for (const PlanRecord& record : records) {
        if (std::find(names.begin(), names.end(), record.planner) == names.end()) {
            names.push_back(record.planner);
        }
    }
    return names;
}

struct Row {
    int batches = 0;
    double makespan = 0;  // sums over batches
    double bound = 0;
    double gap = 0;
    double worst_gap = 0;
    double imbalance = 0;
    double plan_seconds = 0;
    std::int64_t tokens = 0;
    std::map<int, std::int64_t> tokens_by_degree;
    std::map<int, std::int64_t> steps_by_depth;
};

Row row_of(const std::vector<PlanRecord>& records, const std::string& planner) {
    Row row;
    for (const PlanRecord& record : records) {
        if (record.planner != planner) {
            continue;
        }
        const plan::Statistics numbers = plan::statistics(record.problem, record.plan);
        const double gap = record.plan.makespan_seconds / record.plan.lower_bound_seconds;
        ++row.batches;
        row.makespan += record.plan.makespan_seconds;
        row.bound += record.plan.lower_bound_seconds;
        row.gap += gap;
        row.worst_gap = std::max(row.worst_gap, gap);
        row.imbalance += numbers.imbalance_ratio;
        row.plan_seconds += record.plan_seconds;
        for (const auto& [degree, tokens] : numbers.tokens_by_degree) {
            row.tokens_by_degree[degree] += tokens;
            row.tokens += tokens;
        }
        for (const auto& [depth, steps] : numbers.steps_by_recompute_layers) {
            row.steps_by_depth[depth] += steps;
        }
    }
    return row;
}

char mark_of(int degree) {
    if (degree < 10) {
        return static_cast<char>('0' + degree);
    }
    return degree < 36 ? static_cast<char>('a' + degree - 10) : '#';
}

}  // namespace

std::string plan_table(const std::vector<PlanRecord>& records) {
    std::string text = fmt::format("{:<10} {:>7} {:>11} {:>11} {:>8} {:>8} {:>9} {:>12} {:>10}\n",
                                   "planner", "batches", "makespan", "bound", "gap", "worst",
                                   "imbalance", "tokens/s", "plan time");
    for (const std::string& planner : planners_of(records)) {
        const Row row = row_of(records, planner);
        const double count = row.batches;
        text += fmt::format(
            "{:<10} {:>7} {:>9.4f} s {:>9.4f} s {:>7.2f}% {:>7.2f}% {:>9.3f} {:>12.0f} {:>7.1f} "
            "ms\n",
            planner, row.batches, row.makespan / count, row.bound / count,
            100 * (row.gap / count - 1), 100 * (row.worst_gap - 1), row.imbalance / count,
            static_cast<double>(row.tokens) / row.makespan, 1e3 * row.plan_seconds / count);
    }
    return text;
}

std::string plan_histograms(const std::vector<PlanRecord>& records) {
    std::string text;
    for (const std::string& planner : planners_of(records)) {
        const Row row = row_of(records, planner);
        text += fmt::format("{:<10} tokens by SP degree:", planner);
        for (const auto& [degree, tokens] : row.tokens_by_degree) {
            text +=
                fmt::format("  {}: {:.1f}%", degree,
                            100 * static_cast<double>(tokens) / static_cast<double>(row.tokens));
        }
        text += "\n           steps by recomputed layers:";
        for (const auto& [depth, steps] : row.steps_by_depth) {
            text += fmt::format("  {}: {}", depth, steps);
        }
        text += "\n";
    }
    return text;
}

std::string plan_picture(const PlanRecord& record) {
    const int ranks = record.problem.topology.ranks;
    const double end = record.plan.makespan_seconds - record.problem.cost->per_iteration_seconds();
    std::vector<std::string> lines(static_cast<std::size_t>(ranks),
                                   std::string(static_cast<std::size_t>(kColumns), '.'));
    for (const plan::Step& step : record.plan.steps) {
        const double scale = end > 0 ? kColumns / end : 0;
        const auto first = static_cast<std::size_t>(std::lround(step.start_seconds * scale));
        const auto last =
            static_cast<std::size_t>(std::lround((step.start_seconds + step.seconds) * scale));
        for (const int rank : step.world_ranks) {
            std::string& line = lines[static_cast<std::size_t>(rank)];
            for (std::size_t column = first; column < std::min(last, line.size()); ++column) {
                line[column] = mark_of(step.degree());
            }
            if (first > 0 && first < line.size()) {
                line[first] = '|';
            }
        }
    }
    std::string text = fmt::format(
        "{}, batch {}: ranks down, {} across; a step shows its SP degree (a: 10, b: 11, ..., #: 36 "
        "and more), . is idle\n",
        record.planner, record.batch, format_seconds(end));
    const int shown = std::min(ranks, kRows);
    for (int row = 0; row < shown; ++row) {
        const int rank = row * ranks / shown;
        text += fmt::format("{:>5} {}\n", rank, lines[static_cast<std::size_t>(rank)]);
    }
    return text;
}

std::string plan_trace(const std::vector<PlanRecord>& records) {
    constexpr double kMicro = 1e6;
    const std::vector<std::string> planners = planners_of(records);
    auto events = nlohmann::ordered_json::array();
    std::map<std::string, double> start;
    for (std::size_t pid = 0; pid < planners.size(); ++pid) {
        events.push_back({{"name", "process_name"},
                          {"ph", "M"},
                          {"pid", pid},
                          {"args", {{"name", planners[pid]}}}});
    }
    for (const PlanRecord& record : records) {
        const auto pid = std::distance(planners.begin(),
                                       std::find(planners.begin(), planners.end(), record.planner));
        double& offset = start[record.planner];
        for (std::size_t i = 0; i < record.plan.steps.size(); ++i) {
            const plan::Step& step = record.plan.steps[i];
            const auto tokens = plan::load_of(record.problem, step.sequences).tokens;
            for (const int rank : step.world_ranks) {
                events.push_back({{"name", fmt::format("SP {}", step.degree())},
                                  {"ph", "X"},
                                  {"pid", pid},
                                  {"tid", rank},
                                  {"ts", (offset + step.start_seconds) * kMicro},
                                  {"dur", step.seconds * kMicro},
                                  {"args",
                                   {{"batch", record.batch},
                                    {"step", i},
                                    {"tokens", tokens},
                                    {"sequences", step.sequences.size()},
                                    {"recompute_layers", step.recompute_layers},
                                    {"peak_bytes", step.peak_bytes}}}});
            }
        }
        offset += record.plan.makespan_seconds;
    }
    return nlohmann::ordered_json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace dcp
