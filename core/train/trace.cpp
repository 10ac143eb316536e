#include "core/train/trace.hpp"

#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/train/prediction.hpp"

namespace dcp::train {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kPlanTrack = 0;
constexpr int kRealityTrack = 1;

// A slice that ends after the one it stands in would be dropped, so times are whole nanoseconds
// before they are compared or subtracted.
std::int64_t nanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
}

class Events {
public:
    void name(int rank, int track, std::string_view text) {
        events_.push_back({{"name", "thread_name"},
                           {"ph", "M"},
                           {"pid", rank},
                           {"tid", track},
                           {"args", {{"name", text}}}});
    }
    void name_process(int rank) {
        events_.push_back({{"name", "process_name"},
                           {"ph", "M"},
                           {"pid", rank},
                           {"args", {{"name", fmt::format("rank {}", rank)}}}});
        events_.push_back({{"name", "process_sort_index"},
                           {"ph", "M"},
                           {"pid", rank},
                           {"args", {{"sort_index", rank}}}});
    }
    // Begin and end in nanoseconds; the format has microseconds, which may have a fraction.
    void slice(std::string_view name,
               std::string_view category,
               const StepRecord& of,
               int track,
               std::int64_t begin,
               std::int64_t end,
               const Json& arguments) {
        constexpr double kNanosecondsPerMicrosecond = 1000;
        events_.push_back({{"name", name},
                           {"cat", category},
                           {"ph", "X"},
                           {"pid", of.rank},
                           {"tid", track},
                           {"ts", static_cast<double>(begin) / kNanosecondsPerMicrosecond},
                           {"dur", static_cast<double>(end - begin) / kNanosecondsPerMicrosecond},
                           {"args", arguments}});
    }
    Json take() { return std::move(events_); }

private:
    Json events_ = Json::array();
};

// What is said of a step on both tracks.
Json describe(const IterationReport& report, const StepRecord& record) {
    const plan::Step& step = report.plan.steps[static_cast<std::size_t>(record.step)];
    Json arguments{{"step", record.step},
                   {"ranks", step.world_ranks},
                   {"sequences", step.sequences.size()},
                   {"tokens", report.tokens_of(step)},
                   {"degree", step.degree()},
                   {"ulysses", step.strategy.ulysses},
                   {"ring", step.strategy.ring},
                   {"recompute_layers", step.recompute_layers}};
    if (report.has_prediction()) {
        arguments["predicted_seconds"] = step.seconds;
        arguments["predicted_bytes"] = step.peak_bytes;
    }
    arguments["measured_seconds"] = record.seconds;
    arguments["measured_bytes"] = record.peak_bytes;
    arguments["communication_seconds"] = record.communication_seconds;
    arguments["wait_seconds"] = record.wait_seconds;
    return arguments;
}

void add_step(Events& events, const IterationReport& report, const StepRecord& record) {
    const plan::Step& step = report.plan.steps[static_cast<std::size_t>(record.step)];
    const std::string name = fmt::format("SP {}", step.degree());
    const Json arguments = describe(report, record);
    if (report.has_prediction()) {
        events.slice(name, "plan", record, kPlanTrack, nanoseconds(step.start_seconds),
                     nanoseconds(step.start_seconds + step.seconds), arguments);
    }
    const double start = record.start_seconds + record.wait_seconds;
    const std::int64_t begin = nanoseconds(start);
    const std::int64_t end = nanoseconds(start + record.seconds);
    const std::int64_t computed =
        nanoseconds(start + record.seconds - record.communication_seconds);
    const Json which{{"step", record.step}};
    if (record.wait_seconds > 0 && step.degree() > 1) {
        events.slice("waiting", "waiting", record, kRealityTrack, nanoseconds(record.start_seconds),
                     begin, which);
    }
    events.slice(name, "reality", record, kRealityTrack, begin, end, arguments);
    events.slice("computing", "computing", record, kRealityTrack, begin, computed, which);
    if (computed < end) {
        events.slice("communication", "communication", record, kRealityTrack, computed, end, which);
    }
}

}  // namespace

std::string trace_file_name(std::int64_t iteration) {
    return fmt::format("trace-{:06}.json", iteration);
}

std::string to_trace(const IterationReport& report) {
    Events events;
    for (int rank = 0; rank < report.num_ranks; ++rank) {
        events.name_process(rank);
        if (report.has_prediction()) {
            events.name(rank, kPlanTrack, "plan");
        }
        events.name(rank, kRealityTrack, "reality");
    }
    for (const StepRecord& record : report.steps) {
        add_step(events, report, record);
    }
    Json about{{"format", "dcp-trace-1"},
               {"iteration", report.iteration},
               {"planner", report.planner},
               {"ranks", report.num_ranks},
               {"tokens", report.tokens},
               {"seconds", report.seconds},
               {"makespan_seconds", report.makespan_seconds}};
    if (report.has_prediction()) {
        about["predicted_makespan_seconds"] = report.predicted_makespan_seconds;
        about["lower_bound_seconds"] = report.lower_bound_seconds;
    }
    return Json{{"traceEvents", events.take()}, {"displayTimeUnit", "ms"}, {"otherData", about}}
               .dump() +
           "\n";
}

}  // namespace dcp::train
