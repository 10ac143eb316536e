#include "core/plan/closed_form.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::plan {

namespace {

void require(bool is_right, const std::string& model, const char* promise) {
    if (!is_right) {
        throw PlanError(fmt::format("cost model '{}': {}", model, promise));
    }
}

bool is_duration(double value) {
    return std::isfinite(value) && value >= 0;
}

// Value of a table at `degree`; `share` says how far it lies between two entries.
template <class Between>
double look_up(const std::map<int, double>& table, int degree, Between between) {
    const auto above = table.lower_bound(degree);
    if (above == table.end()) {
        return table.rbegin()->second;
    }
    if (above == table.begin() || above->first == degree) {
        return above->second;
    }
    return between(*std::prev(above), *above);
}

}  // namespace

ClosedForm::ClosedForm(ClosedFormConstants constants) : constants_(std::move(constants)) {
    const ClosedFormConstants& c = constants_;
    require(c.layers >= 1, c.name, "layers must be at least 1");
    require(is_duration(c.fixed_seconds) && is_duration(c.token_seconds) &&
                is_duration(c.squared_token_seconds) && is_duration(c.per_iteration_seconds) &&
                is_duration(c.forward_share),
            c.name, "times must be finite and not negative");
    require(c.fixed_seconds + c.token_seconds + c.squared_token_seconds > 0, c.name,
            "a micro-batch must take some time");
    require(is_duration(c.communication_token_bytes) && is_duration(c.static_bytes) &&
                is_duration(c.layer_token_bytes) && is_duration(c.checkpoint_token_bytes),
            c.name, "bytes must be finite and not negative");
    require(c.communication_token_bytes == 0 || !c.bandwidths.empty(), c.name,
            "communication needs a bandwidth");
    for (const auto& [degree, bandwidth] : c.bandwidths) {
        require(degree >= 1 && std::isfinite(bandwidth) && bandwidth > 0, c.name,
                "bandwidths must be positive");
    }
    for (const auto& [degree, latency] : c.latencies) {
        require(degree >= 1 && is_duration(latency), c.name, "latencies must not be negative");
    }
    // Planners ask for each of them many times, and logarithms take their time.
    constexpr int kRemembered = 4096;
    const int last = c.bandwidths.empty() ? 0 : c.bandwidths.rbegin()->first;
    for (int degree = 0; last > 0 && degree <= std::min(last, kRemembered); ++degree) {
        bandwidths_.push_back(interpolated_bandwidth(degree));
    }
}

double ClosedForm::bandwidth(int degree) const {
    const auto index = static_cast<std::size_t>(degree);
    return index < bandwidths_.size() ? bandwidths_[index] : interpolated_bandwidth(degree);
}

double ClosedForm::interpolated_bandwidth(int degree) const {
    return look_up(constants_.bandwidths, degree, [degree](auto below, auto above) {
        const double low = std::log(below.first);
        const double share = (std::log(degree) - low) / (std::log(above.first) - low);
        return std::exp(std::log(below.second) +
                        share * (std::log(above.second) - std::log(below.second)));
    });
}

double ClosedForm::latency(int degree) const {
    if (constants_.latencies.empty()) {
        return 0;
    }
    return look_up(constants_.latencies, degree, [degree](auto below, auto above) {
        const double share =
            static_cast<double>(degree - below.first) / (above.first - below.first);
        return below.second + share * (above.second - below.second);
    });
}

double ClosedForm::token_bytes(int recompute_layers) const {
    const double a = constants_.layer_token_bytes;
    // The layer that is being computed again is held in full: one `a` more as soon as one
    // recomputes.
    return (constants_.layers - recompute_layers) * a +
           recompute_layers * constants_.checkpoint_token_bytes + (recompute_layers > 0 ? a : 0);
}

StepCost ClosedForm::cost(const Load& load, const Strategy& strategy, int recompute_layers) const {
    const ClosedFormConstants& c = constants_;
    const int degree = strategy.degree();
    const double p = degree;
    const auto tokens = static_cast<double>(load.tokens);
    const double again = 1 + c.forward_share * recompute_layers / c.layers;
    StepCost cost;
    cost.fixed_seconds = c.fixed_seconds;
    cost.compute_seconds =
        again * (c.token_seconds * tokens + c.squared_token_seconds * load.squared_tokens) / p;
    if (degree > 1) {
        const double transfer =
            c.communication_token_bytes == 0
                ? 0
                : c.communication_token_bytes * tokens / (p * bandwidth(degree));
        cost.communication_seconds = again * (transfer + latency(degree));
    }
    cost.peak_bytes = c.static_bytes + tokens / p * token_bytes(recompute_layers);
    return cost;
}

LinearCost ClosedForm::linear(int degree, int recompute_layers) const {
    const ClosedFormConstants& c = constants_;
    const double again = 1 + c.forward_share * recompute_layers / c.layers;
    LinearCost line;
    line.fixed_seconds = c.fixed_seconds;
    line.token_seconds = again * c.token_seconds / degree;
    line.squared_token_seconds = again * c.squared_token_seconds / degree;
    if (degree > 1) {
        line.fixed_seconds += again * latency(degree);
        if (c.communication_token_bytes > 0) {
            line.token_seconds +=
                again * c.communication_token_bytes / (degree * bandwidth(degree));
        }
    }
    line.static_bytes = c.static_bytes;
    line.token_bytes = token_bytes(recompute_layers) / degree;
    return line;
}

}  // namespace dcp::plan
