// Plans in phases, as most published planners make them: in each phase every rank is in at most one
// group, and the groups run side by side. The planner offers two of them beside its own search:
// where fixed costs dwarf the work or memory is nearly full of what is static, they can win.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

// Costs at the one recompute depth of all steps: none, or full where the longest sequence of the
// run needs it.
class RunCosts {
public:
    explicit RunCosts(const Problem& problem);

    const Problem& problem() const { return *problem_; }
    int depth() const { return depth_; }
    const std::vector<int>& degrees() const { return degrees_; }  // allowed, and hold a token
    std::int64_t most_tokens(int degree) const;
    std::int64_t world_tokens() const;  // what all ranks hold at once, in groups of the best degree
    int least_degree(std::int64_t tokens) const;  // the smallest that holds so many
    std::int64_t tokens(std::int32_t sequence) const;
    Load load(std::int32_t sequence) const;
    double seconds(int degree, const Load& load) const;

    // Positions of the sequences by falling length, ties by position.
    std::vector<std::int32_t> longest_first() const;

private:
    const Problem* problem_;
    int depth_ = 0;
    std::vector<int> degrees_;
    std::vector<std::int64_t> most_tokens_;       // by degree, 0 where it is not allowed
    std::vector<std::vector<CostPiece>> pieces_;  // by degree
};

// The powers of two of the allowed degrees from `least` up; all allowed degrees where these cannot
// hold the longest sequence.
std::vector<int> power_of_two_domain(const RunCosts& costs, int least);

struct PhasedPlan {
    Plan plan;                   // a rank goes on as soon as its own group is done
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
    std::vector<Step> steps_;
    std::vector<std::size_t> begins_;  // of phases among the steps
};

// Sequences are packed by best fit decreasing into groups of the least degree that holds the first.
// A two-dimensional programme over (groups, ranks) gives each any allowed degree from that up, so
// that the slowest is fastest. Where the groups need more ranks than there are, longest first they
// fill as many phases as needed. This is how FCP plans (arXiv 2602.21788, whose description knows
// one phase). O(groups x degrees x ranks).
PhasedPlan plan_by_degree_programme(const Problem& problem);

// Longest first; the work of a sequence is s^2 / degree, without a linear term. The first of a
// phase sets the cap of work; each next joins a group of its degree or opens one on free ranks,
// whatever makes the most loaded group least loaded, or waits for the next phase. Ranks left over
// double the smallest groups. Degrees are powers of two. This is how Megatron-Core's packing-aware
// scheduler for dynamic context parallelism plans. What its description leaves open is tried both
// ways, and where it takes all ranks as one group (their number is no power of two) both are; the
// shortest plan is taken.
PhasedPlan plan_by_capped_work(const Problem& problem);

}  // namespace dcp::plan
