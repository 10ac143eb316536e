// How long the next plan may be searched for: a long search makes shorter plans, and is made only
// where training will not wait for it. No clock: it is told what searches took.
#pragma once

#include "core/plan/planner.hpp"

namespace dcp::train {

class SearchEffort {
public:
    // A plan that is longer than this is worth a long search: it is made ahead, while an iteration
    // runs that will last about as long. For a plan that is awaited no plan is long enough.
    double long_makespan_seconds(bool is_awaited) const;

    // How the last plan was searched for and what that took.
    void remember(plan::Effort effort, double seconds);

private:
    double search_seconds_ = 0;  // of a long search, as far as it is known
};

}  // namespace dcp::train
