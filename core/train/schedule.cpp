#include "core/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dcp::train {

namespace {

// How far `iteration` has come from `begin` (0) to `end` (1).
double progress(std::int64_t iteration, double begin, double end) {
    return end > begin
               ? std::clamp((static_cast<double>(iteration) - begin) / (end - begin), 0.0, 1.0)
               : 1.0;
}

}  // namespace

double Schedule::learning_rate(std::int64_t iteration) const {
    if (iteration < schedule_.warmup) {
        return peak_ * static_cast<double>(iteration) / static_cast<double>(schedule_.warmup);
    }
    const auto warmup = static_cast<double>(schedule_.warmup);
    const auto iterations = static_cast<double>(iterations_);
    const double fall = 1 - schedule_.final;
    switch (schedule_.kind) {
        case config::ScheduleKind::kConstant:
            return peak_;
        case config::ScheduleKind::kLinear:
            return peak_ * (1 - fall * progress(iteration, warmup, iterations));
        case config::ScheduleKind::kCosine: {
            const double p = progress(iteration, warmup, iterations);
            return peak_ * (schedule_.final + fall * (1 + std::cos(std::numbers::pi * p)) / 2);
        }
        case config::ScheduleKind::kWsd: {
            const double decay_begin = std::max(warmup, iterations * (1 - schedule_.decay_share));
            return peak_ * (1 - fall * progress(iteration, decay_begin, iterations));
        }
    }
    return peak_;
}

}  // namespace dcp::train
