#include "core/plan/statistics.hpp"

#include <algorithm>
#include <numeric>

namespace dcp::plan {

Statistics statistics(const Problem& problem, const Plan& plan) {
    const auto ranks = static_cast<std::size_t>(problem.topology.ranks);
    Statistics result;
    result.busy_seconds.assign(ranks, 0.0);
    result.peak_bytes.assign(ranks, 0.0);
    std::int64_t tokens = 0;
    double last_end = 0;
    for (const Step& step : plan.steps) {
        const std::int64_t step_tokens = load_of(problem, step.sequences).tokens;
        tokens += step_tokens;
        if (!step.is_filler()) {
            result.tokens_by_degree[step.degree()] += step_tokens;
            ++result.steps_by_degree[step.degree()];
            ++result.steps_by_recompute_layers[step.recompute_layers];
        }
        last_end = std::max(last_end, step.start_seconds + step.seconds);
        for (const int rank : step.world_ranks) {
            const auto index = static_cast<std::size_t>(rank);
            result.busy_seconds[index] += step.seconds;
            result.peak_bytes[index] = std::max(result.peak_bytes[index], step.peak_bytes);
        }
    }
    if (plan.makespan_seconds > 0) {
        const double busy =
            std::accumulate(result.busy_seconds.begin(), result.busy_seconds.end(), 0.0);
        const double idle = last_end - busy / static_cast<double>(ranks);
        result.imbalance_ratio = std::max(0.0, idle) / plan.makespan_seconds;  // sums are rounded
        result.tokens_per_second = static_cast<double>(tokens) / plan.makespan_seconds;
    }
    return result;
}

}  // namespace dcp::plan
