// What a plan without regrouping can reach: for ablations, not for training.
#pragma once

#include "core/plan/planner.hpp"

namespace dcp::sim {

// Every rank belongs to one group for the whole iteration. Groups have degrees that are powers of
// two; many ways to divide the ranks are tried. For each, the sequences, longest first, go to the
// group that has finished them first, in a micro-batch of their own or in its last one, whichever
// is cheaper, recomputing as little as memory allows.
class FixedGroupsPlanner final : public plan::Planner {
public:
    static constexpr std::string_view kName = "fixed-groups";

    std::string_view name() const override { return kName; }
    plan::Plan plan(const plan::Problem& problem) const override;
};

}  // namespace dcp::sim
