#include "tests/bench/plan_tables.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace dcp::bench {

namespace {

struct Spread {
    double mean = 0;
    double median = 0;
    double most = 0;
};

Spread spread_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    double sum = 0;
    for (const double value : values) {
        sum += value;
    }
    return {.mean = sum / static_cast<double>(values.size()),
            .median = values[values.size() / 2],
            .most = values.back()};
}

template <class Value>
Spread spread_of(const std::vector<Measurement>& measurements, Value value) {
    std::vector<double> values;
    for (const Measurement& m : measurements) {
        values.push_back(value(m));
    }
    return spread_of(std::move(values));
}

// In the order of their first measurement.
std::vector<std::vector<Measurement>> by_planner(const std::vector<Measurement>& measurements) {
    std::vector<std::vector<Measurement>> groups;
    std::map<std::string, std::size_t> places;
    for (const Measurement& m : measurements) {
        const auto [place, is_new] = places.emplace(m.planner, groups.size());
        if (is_new) {
            groups.emplace_back();
        }
        groups[place->second].push_back(m);
    }
    return groups;
}

std::string target_text(const Measurement& m, const Spread& gap) {
    if (!m.what.target) {
        return "";
    }
    const bool is_met = gap.mean <= m.what.target->mean && gap.most <= m.what.target->worst;
    return fmt::format("{:.3f} / {:.2f} {}", m.what.target->mean, m.what.target->worst,
                       is_met ? "met" : "missed");
}

}  // namespace

std::string gap_table_head() {
    return fmt::format("{:<12} {:<20} {:<7} {:<15} {:>7} {:>15} {:>15} {:>21} {:>9} {:>9} {:>9}\n",
                       "lengths", "ranks x sequences", "degrees", "planner", "batches",
                       "over best bound", "over slots", "target", "plan ms", "most", "LP ms");
}

std::string gap_table_lines(const std::vector<Measurement>& measurements) {
    std::string text;
    for (const std::vector<Measurement>& group : by_planner(measurements)) {
        const Measurement& first = group.front();
        const Spread gap = spread_of(group, [](const Measurement& m) { return m.gap(); });
        const Spread over_slots =
            spread_of(group, [](const Measurement& m) { return m.gap_over_slots(); });
        const Spread time =
            spread_of(group, [](const Measurement& m) { return 1e3 * m.plan_seconds; });
        const Spread lp =
            spread_of(group, [](const Measurement& m) { return 1e3 * m.bounds.lp_seconds; });
        text += fmt::format(
            "{:<12} {:<20} {:<7} {:<15} {:>7} {:>7.4f} {:>7.4f} {:>7.4f} {:>7.4f} {:>21} {:>9.1f} "
            "{:>9.1f} {:>9.0f}\n",
            first.lengths, first.what.name(), first.what.any_degree ? "any" : "pow2", first.planner,
            group.size(), gap.mean, gap.most, over_slots.mean, over_slots.most,
            target_text(first, gap), time.median, time.most, lp.median);
    }
    return text;
}

std::string rival_table_head() {
    return fmt::format("{:<12} {:<20} {:<15} {:>7} {:>10} {:>9} {:>9} {:>9} {:>14} {:>10} {:>10}\n",
                       "lengths", "ranks x sequences", "planner", "batches", "seconds", "over dcp",
                       "least", "most", "with barriers", "plan ms", "most");
}

std::string rival_table_lines(const std::vector<Measurement>& measurements) {
    std::string text;
    const std::vector<std::vector<Measurement>> groups = by_planner(measurements);
    for (const std::vector<Measurement>& group : groups) {
        std::vector<double> ratios;
        std::vector<double> with_barriers;
        for (std::size_t batch = 0; batch < group.size(); ++batch) {
            const double first = groups.front()[batch].makespan;
            ratios.push_back(group[batch].makespan / first);
            with_barriers.push_back(group[batch].barrier_seconds / first);
        }
        const Measurement& some = group.front();
        const Spread seconds = spread_of(group, [](const Measurement& m) { return m.makespan; });
        const Spread time =
            spread_of(group, [](const Measurement& m) { return 1e3 * m.plan_seconds; });
        const Spread ratio = spread_of(ratios);
        text += fmt::format(
            "{:<12} {:<20} {:<15} {:>7} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>14} {:>10.1f} "
            "{:>10.1f}\n",
            some.lengths, some.what.name(), some.planner, group.size(), seconds.mean, ratio.mean,
            *std::min_element(ratios.begin(), ratios.end()), ratio.most,
            some.barrier_seconds > 0 ? fmt::format("{:.3f}", spread_of(with_barriers).mean) : "",
            time.median, time.most);
    }
    return text;
}

std::string blame_table_head() {
    return fmt::format("{:<12} {:<20} {:<7} {:>7} {:>15} {:>17} {:>15} {:>15} {:>15}\n", "lengths",
                       "ranks x sequences", "degrees", "batches", "plan over LP",
                       "plan over longer", "longer over LP", "LP over slots", "slots over area");
}

std::string blame_table_lines(const std::vector<Measurement>& measurements) {
    const std::vector<std::vector<Measurement>> groups = by_planner(measurements);
    std::vector<double> plan_over_lp;
    std::vector<double> plan_over_longer;
    std::vector<double> longer_over_lp;
    std::vector<double> lp_over_slots;
    std::vector<double> slots_over_area;
    for (std::size_t batch = 0; batch < groups.front().size(); ++batch) {
        const Measurement& plan = groups.front()[batch];
        double best = plan.makespan;
        for (const std::vector<Measurement>& group : groups) {
            best = std::min(best, group[batch].makespan);
        }
        plan_over_lp.push_back(plan.gap());
        plan_over_longer.push_back(plan.makespan / best);
        longer_over_lp.push_back(best / plan.bounds.best());
        lp_over_slots.push_back(plan.bounds.best() / plan.bounds.slots);
        slots_over_area.push_back(plan.bounds.slots / plan.bounds.area);
    }
    const auto both = [](const std::vector<double>& values) {
        const Spread spread = spread_of(values);
        return fmt::format("{:.4f} {:.4f}", spread.mean, spread.most);
    };
    const Measurement& some = measurements.front();
    return fmt::format("{:<12} {:<20} {:<7} {:>7} {:>15} {:>17} {:>15} {:>15} {:>15}\n",
                       some.lengths, some.what.name(), some.what.any_degree ? "any" : "pow2",
                       groups.front().size(), both(plan_over_lp), both(plan_over_longer),
                       both(longer_over_lp), both(lp_over_slots), both(slots_over_area));
}

}  // namespace dcp::bench
