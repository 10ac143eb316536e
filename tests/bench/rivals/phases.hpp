// What the rivals share. They plan in phases: in each, every rank is in at most one group, and the
// groups of a phase run side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::bench {

// Costs at the one recompute depth that a rival uses in a whole run: none, or full where the
// longest sequence needs it.
class RunCosts {
public:
    explicit RunCosts(const plan::Problem& problem);

    const plan::Problem& problem() const { return *problem_; }
    int depth() const { return depth_; }
    const std::vector<int>& degrees() const { return degrees_; }  // allowed, and hold a token
    std::int64_t most_tokens(int degree) const;
    std::int64_t world_tokens() const;  // what all ranks hold at once, in groups of the best degree
    int least_degree(std::int64_t tokens) const;  // the smallest that holds so many
    std::int64_t tokens(std::int32_t sequence) const;
    double seconds(int degree, const plan::Load& load) const;

    // Positions of the sequences by falling length, ties by position.
    std::vector<std::int32_t> longest_first() const;

private:
    const plan::Problem* problem_;
    int depth_ = 0;
    std::vector<int> degrees_;
    std::vector<std::int64_t> most_tokens_;  // by degree, 0 where it is not allowed
};

// The powers of two of the allowed degrees from `least` up, as the rivals use them; all allowed
// degrees where these cannot hold the longest sequence.
std::vector<int> power_of_two_domain(const RunCosts& costs, int least);

struct PhasedPlan {
    plan::Plan plan;             // a rank goes on as soon as its own group is done
    double barrier_seconds = 0;  // makespan if all ranks waited at the end of every phase
};

class Phases {
public:
    explicit Phases(const RunCosts& costs) : costs_(costs) { begin(); }

    void begin();  // the next phase: all ranks are free again
    int free_ranks() const { return free_ranks_; }
    // A group on free ranks that obeys the node rule; false where there is no such place.
    bool place(int degree, const std::vector<std::int32_t>& sequences);
    PhasedPlan finish() &&;

private:
    std::vector<int> find(int degree) const;

    const RunCosts& costs_;
    std::vector<std::vector<int>> free_of_node_;
    int free_ranks_ = 0;
    std::vector<plan::Step> steps_;
    std::vector<std::size_t> begins_;  // of phases among the steps
};

}  // namespace dcp::bench
