#include "core/train/search_effort.hpp"

#include <algorithm>
#include <limits>

namespace dcp::train {

namespace {

// A long search takes about a second and stays hidden behind an iteration that is longer than this;
// where it turned out to take more, behind one of some times that.
constexpr double kLongIterationSeconds = 10;
constexpr double kIterationsOverSearch = 3;
constexpr double kForgottenSearch = 0.9;  // an iteration; one slow search is not for ever

}  // namespace

double SearchEffort::long_makespan_seconds(bool is_awaited) const {
    return is_awaited ? std::numeric_limits<double>::infinity()
                      : std::max(kLongIterationSeconds, kIterationsOverSearch * search_seconds_);
}

void SearchEffort::remember(plan::Effort effort, double seconds) {
    search_seconds_ =
        effort == plan::Effort::kBackground ? seconds : kForgottenSearch * search_seconds_;
}

}  // namespace dcp::train
