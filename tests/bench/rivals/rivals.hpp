// Published planners, written again from their descriptions, for comparison under our cost model
// and node rule. Where a description leaves something open, the choice that serves the rival better
// is made. All three plan in phases; a plan here has no barrier between phases, which is kinder to
// them than what they run on.
#pragma once

#include "tests/bench/rivals/phases.hpp"

#include "core/plan/planner.hpp"

namespace dcp::bench {

class Rival : public plan::Planner {
public:
    plan::Plan plan(const plan::Problem& problem) const final { return phased(problem).plan; }
    virtual PhasedPlan phased(const plan::Problem& problem) const = 0;
};

// FlexSP (arXiv 2412.01523). "Blaster": the batch by falling length, cut into m consecutive chunks
// whose greatest number of tokens is least; m from the least that memory allows to four more. In a
// chunk lengths are rounded up to 16 buckets (more while rounding adds too much), and a mixed
// integer program chooses groups of power-of-two degrees (1 is left out, as in their code) and how
// many sequences of each bucket go to which, to finish soonest. Solved by CBC within a time limit
// for each program, started from the best split with one degree: what it finds when the limit ends
// the search depends on the machine.
class FlexSpPlanner final : public Rival {
public:
    struct Options {
        double limit_seconds = 5;  // of each program
        int chunk_counts = 5;      // m_min and so many less one above
    };
    explicit FlexSpPlanner(const Options& options) : options_(options) {}
    std::string_view name() const override { return "flexsp"; }
    PhasedPlan phased(const plan::Problem& problem) const override;

private:
    Options options_;
};

// FCP (arXiv 2602.21788). Sequences are packed by best fit decreasing into atomic groups of the
// least degree that holds the first; a two-dimensional programme over (groups, ranks) gives each
// any allowed degree from that up so that the slowest is fastest. The description knows one phase:
// where the groups need more ranks than there are, longest first they fill as many phases as
// needed.
class FcpPlanner final : public Rival {
public:
    std::string_view name() const override { return "fcp"; }
    PhasedPlan phased(const plan::Problem& problem) const override;
};

// Megatron-Core's packing-aware greedy for dynamic context parallelism. Longest first; the work of
// a sequence is s^2 / degree, without a linear term. The first of a micro-batch sets the cap of
// work; each next joins a group of its degree or opens one on free ranks, whatever makes the most
// loaded group least loaded, or waits for the next micro-batch. Ranks left over double the smallest
// groups. Powers of two; a world of another size runs as one group.
class MegatronPlanner final : public Rival {
public:
    std::string_view name() const override { return "megatron"; }
    PhasedPlan phased(const plan::Problem& problem) const override;
};

}  // namespace dcp::bench
