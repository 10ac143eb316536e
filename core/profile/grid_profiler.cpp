#include "core/profile/grid_profiler.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "comm/control.hpp"
#include "core/plan/topology.hpp"
#include "core/profile/samples.hpp"

namespace dcp::profile {

namespace {

using Clock = std::chrono::steady_clock;

class GridRun {
public:
    GridRun(LayerProfiler& profiler,
            Queue& queue,
            comm::Communicator& world,
            const GridOptions& options)
        : profiler_(profiler), queue_(queue), world_(world), options_(options) {}

    GridResult run() {
        result_.points = options_.known;
        profiler_.set_reference(options_.reference);
        if (options_.known.empty()) {
            result_.ends = profiler_.measure_ends(options_.limits.rank_tokens, options_.effort);
        }
        const std::vector<Request> grid = missing_requests(options_.known, options_.limits);
        for (std::size_t begin = 0; begin < grid.size();) {
            const std::size_t end = end_of_curve(grid, begin);
            const std::vector<Measurement> measured =
                measure_curve(std::span(grid).subspan(begin, end - begin));
            if (grid[begin].strategy.degree() == 1 && options_.reference.tokens > 0) {
                result_.speeds = clear_speeds(measured);
            }
            begin = end;
        }
        refine();
        if (options_.known.empty()) {
            settle_reference();
        }
        result_.reference = profiler_.reference();
        result_.seconds = elapsed();
        return std::move(result_);
    }

private:
    // The same on all ranks: what happens next depends on it.
    double elapsed() {
        double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
        comm::all_reduce_values(queue_, world_, std::span(&seconds, 1), comm::ReduceOp::kMax);
        return seconds;
    }

    static std::size_t end_of_curve(const std::vector<Request>& grid, std::size_t begin) {
        std::size_t end = begin;
        while (end < grid.size() && grid[end].strategy == grid[begin].strategy) {
            ++end;
        }
        return end;
    }

    std::vector<Measurement> measure(std::span<const Request> requests) {
        std::vector<Measurement> measured = profiler_.measure(requests, options_.effort);
        for (const Measurement& one : measured) {
            result_.points.push_back(one.point);
        }
        if (options_.progress) {
            options_.progress(static_cast<int>(result_.points.size()), elapsed());
        }
        return measured;
    }

    // By rising tokens, each number of tokens as long as it can be expected to end in time.
    std::vector<Measurement> measure_curve(std::span<const Request> curve) {
        std::vector<Measurement> all;
        CurvePace pace;
        for (std::size_t begin = 0; begin < curve.size();) {
            std::size_t end = begin;
            while (end < curve.size() && curve[end].tokens == curve[begin].tokens) {
                ++end;
            }
            const double start = elapsed();
            if (start + pace.expected(curve[begin].tokens) > options_.most_seconds && begin > 0) {
                result_.num_left_out += static_cast<int>(curve.size() - begin);
                break;
            }
            const std::vector<Measurement> more = measure(curve.subspan(begin, end - begin));
            all.insert(all.end(), more.begin(), more.end());
            pace.add(curve[begin].tokens, elapsed() - start);
            begin = end;
        }
        return all;
    }

    // Seconds as they typically were: the reference was looked at first in one moment only.
    void settle_reference() {
        const double typical = profiler_.typical_slowness();
        for (plan::ProfilePoint& point : result_.points) {
            point.forward_seconds *= typical;
            point.backward_seconds *= typical;
            point.recompute_seconds *= typical;
        }
        result_.ends.fixed_seconds *= typical;
        result_.ends.token_seconds *= typical;
        plan::ProfileReference reference = profiler_.reference();
        reference.seconds *= typical;
        profiler_.set_reference(reference);
    }

    void refine() {
        while (elapsed() < options_.refine_seconds) {
            const std::vector<Request> next =
                next_refinement(result_.points, options_.limits, options_.tolerance);
            if (next.empty()) {
                return;
            }
            measure(next);
        }
    }

    LayerProfiler& profiler_;
    Queue& queue_;
    comm::Communicator& world_;
    const GridOptions& options_;
    Clock::time_point start_ = Clock::now();
    GridResult result_;
};

}  // namespace

std::vector<double> clear_speeds(const std::vector<Measurement>& measured) {
    constexpr double kClear = 0.1;
    constexpr double kNearlyAll = 0.8;
    if (measured.empty() || measured.front().rank_seconds.size() < 2) {
        return {};
    }
    const std::size_t ranks = measured.front().rank_seconds.size();
    std::vector<double> speeds(ranks);
    bool is_clear = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<double> ratios;
        for (const Measurement& one : measured) {
            ratios.push_back(median(one.rank_seconds) / std::max(one.rank_seconds[rank], 1e-12));
        }
        speeds[rank] = std::clamp(median(ratios), plan::kLeastSpeed, plan::kMostSpeed);
        const bool is_slower = speeds[rank] < 1;
        const auto agreeing = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
            return is_slower ? ratio < 1 - kClear : ratio > 1 + kClear;
        });
        is_clear = is_clear ||
                   static_cast<double>(agreeing) >= kNearlyAll * static_cast<double>(ratios.size());
    }
    return is_clear ? speeds : std::vector<double>{};
}

GridResult measure_grid(LayerProfiler& profiler,
                        Queue& queue,
                        comm::Communicator& world,
                        const GridOptions& options) {
    return GridRun(profiler, queue, world, options).run();
}

}  // namespace dcp::profile
