// The search of one cluster as a whole: what the planner `dcp` does with a small cluster, and with
// each piece of a large one.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/draft.hpp"
#include "core/plan/improve.hpp"
#include "core/plan/search_budget.hpp"

namespace dcp::plan {

// The shortest draft found. `bound_seconds`: no plan is shorter, what an iteration costs once not
// included.
Draft search_whole(const Problem& problem,
                   const MicroCosts& costs,
                   SearchBudget budget,
                   double bound_seconds);

// Annealing takes what ranks wait for as it was when the draft was made. Where other contents of
// gangs made it more, gangs then stay, and single-rank micro-batches make up for it.
Draft annealed_twice(Draft draft,
                     const LengthOrder& order,
                     double bound_seconds,
                     std::int64_t moves,
                     std::uint64_t& seed);

// Of drafts whose gangs were opened with the sequences they have: the one whose plan is shortest.
class Shortest {
public:
    void offer(Draft&& draft);
    double seconds() const { return seconds_; }
    Draft taken() { return *std::move(draft_); }

private:
    std::optional<Draft> draft_;
    double seconds_ = 0;
};

}  // namespace dcp::plan
