#include "core/sim/run.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>

#include "core/plan/bound.hpp"
#include "core/plan/elastic.hpp"
#include "core/plan/statistics.hpp"
#include "core/plan/validate.hpp"

namespace dcp::sim {

namespace {

std::vector<plan::Sequence> sequences_of(const std::vector<lengths::Item>& items) {
    std::vector<plan::Sequence> sequences;
    sequences.reserve(items.size());
    for (const lengths::Item& item : items) {
        sequences.push_back(
            {.id = item.id, .tokens = item.length.tokens, .frames = item.length.frames});
    }
    return sequences;
}

// A stream of which some items have been drawn ahead.
class Lookahead final : public lengths::Stream {
public:
    explicit Lookahead(lengths::Stream& stream) : stream_(stream) {}

    lengths::Item peek() const override { return ahead_.empty() ? stream_.peek() : ahead_.front(); }
    void advance() override {
        if (ahead_.empty()) {
            stream_.advance();
        } else {
            ahead_.pop_front();
        }
    }
    // The next `count` items, which stay in the stream.
    std::vector<lengths::Item> look(std::size_t count) {
        while (ahead_.size() < count) {
            ahead_.push_back(stream_.peek());
            stream_.advance();
        }
        return {ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(count)};
    }

private:
    lengths::Stream& stream_;
    std::deque<lengths::Item> ahead_;
};

class Run {
public:
    Run(const RunSettings& settings, const plan::Planner& planner)
        : settings_(settings), planner_(planner), problem_(settings.problem) {
        report_.planner = planner.name();
        report_.ranks = problem_.topology.ranks;
        report_.budget_bytes = problem_.memory_budget_bytes;
        peaks_.assign(static_cast<std::size_t>(report_.ranks), 0.0);
        fixed_speeds_ = real_speeds(0);
        if (settings.stragglers.is_known) {
            problem_.topology.speeds = fixed_speeds_;
        }
    }

    // Returns how many of the sequences that come `next` filled idle time.
    std::size_t add(std::vector<plan::Sequence> sequences, std::vector<plan::Sequence> next) {
        problem_.sequences = std::move(sequences);
        plan::weigh(problem_);
        for (plan::Sequence& sequence : next) {
            sequence.squared_tokens = problem_.cost->squared_tokens(sequence);
        }
        std::size_t taken = 0;
        const auto [plan, plan_seconds] = planned(next, taken);
        const auto iteration = static_cast<std::int64_t>(report_.iterations.size());
        const auto& speeds = settings_.stragglers.is_moving
                                 ? real_speeds(static_cast<std::uint64_t>(iteration))
                                 : fixed_speeds_;
        const Timeline timeline = replay(problem_, plan, speeds, settings_.noise, iteration);
        const double once = problem_.cost->per_iteration_seconds() + settings_.once_seconds;
        IterationRecord record{.sequences = static_cast<std::int64_t>(problem_.sequences.size())};
        record.steps_seconds = timeline.steps_seconds;
        record.plan_seconds = plan_seconds;
        record.predicted_seconds = plan.makespan_seconds + settings_.once_seconds;
        record.bound_seconds = plan.lower_bound_seconds + settings_.once_seconds;
        record.exposed_seconds = exposed(plan_seconds);
        record.seconds = timeline.steps_seconds + once + record.exposed_seconds;
        measure_ranks(timeline, once, record);
        measure_plan(plan, record);
        report_.once_seconds += once;
        report_.iterations.push_back(record);
        return taken;
    }

    RunReport finish() {
        double predicted = 0;
        double bound = 0;
        double layers = 0;
        for (const IterationRecord& record : report_.iterations) {
            report_.sequences += record.sequences;
            report_.tokens += record.tokens;
            report_.seconds += record.seconds;
            report_.exposed_seconds += record.exposed_seconds;
            report_.imbalance_ratio += record.imbalance_ratio * record.seconds;
            report_.busy_mean += record.busy_mean * record.seconds;
            report_.busy_variance += record.busy_variance * record.seconds;
            report_.peak_bytes = std::max(report_.peak_bytes, record.peak_bytes);
            report_.plan_seconds += record.plan_seconds;
            predicted += record.predicted_seconds;
            bound += record.bound_seconds;
        }
        layers = static_cast<double>(report_.tokens) * problem_.cost->layers();
        report_.gap = predicted / bound - 1;
        report_.imbalance_ratio /= report_.seconds;
        report_.busy_mean /= report_.seconds;
        report_.busy_variance /= report_.seconds;
        report_.plan_seconds /= static_cast<double>(report_.iterations.size());
        report_.recomputed_share = recomputed_ / layers;
        report_.mean_peak_bytes =
            std::accumulate(peaks_.begin(), peaks_.end(), 0.0) / report_.ranks;
        if (settings_.peak_flops > 0) {
            report_.utilization = flops_ / (settings_.peak_flops * report_.ranks * report_.seconds);
        }
        return std::move(report_);
    }

private:
    struct Planned {
        plan::Plan plan;
        double seconds = 0;
    };

    // What ranks are as described, and the stragglers among them so many times slower.
    std::vector<double> real_speeds(std::uint64_t draw) const {
        const std::vector<double>& described = settings_.problem.topology.speeds;
        std::vector<double> speeds =
            straggler_speeds(problem_.topology.ranks, settings_.stragglers.share,
                             settings_.stragglers.slowdown, settings_.noise.seed, draw);
        if (speeds.empty()) {
            return described;
        }
        for (std::size_t rank = 0; rank < described.size(); ++rank) {
            speeds[rank] *= described[rank];
        }
        return speeds;
    }

    Planned planned(const std::vector<plan::Sequence>& next, std::size_t& taken) {
        const auto start = std::chrono::steady_clock::now();
        plan::Plan plan = planner_.plan(problem_);
        taken = next.empty() ? 0 : plan::fill_idle_time(problem_, plan, next);
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        plan::validate(problem_, plan);
        plan.lower_bound_seconds = plan::lower_bounds(problem_).best_seconds();
        return {.plan = std::move(plan), .seconds = spent.count()};
    }

    // The first plan is made while the run starts.
    double exposed(double plan_seconds) const {
        if (report_.iterations.empty()) {
            return 0;
        }
        const IterationRecord& before = report_.iterations.back();
        const double taken = settings_.plan_seconds < 0 ? plan_seconds : settings_.plan_seconds;
        return std::max(0.0, taken - (before.seconds - before.exposed_seconds));
    }

    static void measure_ranks(const Timeline& timeline, double once, IterationRecord& record) {
        const auto ranks = static_cast<double>(timeline.busy_seconds.size());
        double sum = 0;
        double squares = 0;
        for (const double busy : timeline.busy_seconds) {
            const double fraction = busy / timeline.steps_seconds;
            sum += fraction;
            squares += fraction * fraction;
        }
        record.busy_mean = sum / ranks;
        record.busy_variance = std::max(0.0, squares / ranks - record.busy_mean * record.busy_mean);
        const double idle = std::max(0.0, 1 - record.busy_mean);  // sums are rounded
        record.imbalance_ratio = idle * timeline.steps_seconds / (timeline.steps_seconds + once);
    }

    void measure_plan(const plan::Plan& plan, IterationRecord& record) {
        const plan::Statistics numbers = plan::statistics(problem_, plan);
        for (std::size_t rank = 0; rank < peaks_.size(); ++rank) {
            peaks_[rank] = std::max(peaks_[rank], numbers.peak_bytes[rank]);
            record.peak_bytes = std::max(record.peak_bytes, numbers.peak_bytes[rank]);
        }
        for (const auto& [degree, tokens] : numbers.tokens_by_degree) {
            report_.tokens_by_degree[degree] += tokens;
        }
        for (const auto& [layers, steps] : numbers.steps_by_recompute_layers) {
            report_.steps_by_recompute_layers[layers] += steps;
        }
        for (const plan::Step& step : plan.steps) {
            const plan::Load load = plan::load_of(problem_, step.sequences);
            record.tokens += load.tokens;
            recomputed_ += static_cast<double>(load.tokens) * step.recompute_layers;
            ++report_.steps;
            report_.guessed_steps +=
                step.is_filler() || problem_.cost->covers(load, step.strategy) ? 0 : 1;
        }
        if (settings_.training_flops) {
            for (const plan::Sequence& sequence : problem_.sequences) {
                flops_ += settings_.training_flops(sequence);
            }
        }
    }

    const RunSettings& settings_;
    const plan::Planner& planner_;
    plan::Problem problem_;
    std::vector<double> fixed_speeds_;
    RunReport report_;
    std::vector<double> peaks_;
    double recomputed_ = 0;  // tokens times recomputed layers
    double flops_ = 0;
};

}  // namespace

RunReport run(const RunSettings& settings, const plan::Planner& planner, lengths::Stream& stream) {
    Run run(settings, planner);
    Lookahead ahead(stream);
    std::int64_t left =
        settings.sequences > 0 ? settings.sequences : std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = 0; i < settings.iterations && left > 0; ++i) {
        const auto items = lengths::next_batch(ahead, settings.batch, left);
        left -= static_cast<std::int64_t>(items.size());
        std::vector<plan::Sequence> next;
        if (settings.is_elastic) {
            constexpr std::int64_t kMostFilling = 2;  // times the batch
            next = sequences_of(ahead.look(static_cast<std::size_t>(
                std::min(left, kMostFilling * static_cast<std::int64_t>(items.size())))));
        }
        const std::size_t taken = run.add(sequences_of(items), std::move(next));
        for (std::size_t k = 0; k < taken; ++k) {
            ahead.advance();
        }
        left -= static_cast<std::int64_t>(taken);
    }
    return run.finish();
}

}  // namespace dcp::sim
