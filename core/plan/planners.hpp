// The planners behind make_planner().
#pragma once

#include "core/plan/planner.hpp"

namespace dcp::plan {

// The paper's baseline. One SP degree for the whole run, full recompute where recompute is allowed;
// only sequences of one length class (up to 1, 2, 4, 8, ... tokens) share a micro-batch, and the
// batch sizes of the classes are such that micro-batches cost alike. They go to the groups in turn.
class BucketPlanner final : public Planner {
public:
    std::string_view name() const override { return "bucket"; }
    Plan plan(const Problem& problem) const override;
};

// The second baseline. One SP degree for the whole run; sequences packed up to a token budget (best
// fit, longest first), the packs dealt to the least busy group. With recompute allowed both none
// and full are tried.
class PackedPlanner final : public Planner {
public:
    std::string_view name() const override { return "packed"; }
    Plan plan(const Problem& problem) const override;
};

// The paper's: the best SP degree and batch size of every length class, groups of those degrees
// that fill the world, micro-batches accumulated so that groups finish together. Full recompute.
class InterPlanner final : public Planner {
public:
    std::string_view name() const override { return "dcp-inter"; }
    Plan plan(const Problem& problem) const override;
};

// The paper's second: the same with as little recompute as memory allows, and degrees and batch
// sizes chosen with that.
class IntraPlanner final : public Planner {
public:
    std::string_view name() const override { return "dcp-intra"; }
    Plan plan(const Problem& problem) const override;
};

// Ours: the shortest of many constructions after local search. Deterministic, with the lower bound.
class DcpPlanner final : public Planner {
public:
    explicit DcpPlanner(Effort effort) : effort_(effort) {}
    std::string_view name() const override { return "dcp"; }
    Plan plan(const Problem& problem) const override;

private:
    Effort effort_;
};

// Any valid plan, drawn: groups of ranks near and far, all strategies, depths and orders. For tests
// of whatever runs plans, and for trying a model of one's own against them.
class RandomPlanner final : public Planner {
public:
    explicit RandomPlanner(std::uint64_t seed) : seed_(seed) {}
    std::string_view name() const override { return "random"; }
    Plan plan(const Problem& problem) const override;

private:
    std::uint64_t seed_;
};

}  // namespace dcp::plan
