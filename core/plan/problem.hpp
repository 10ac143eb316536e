// What a planner is given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/cost_model.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/topology.hpp"

namespace dcp::plan {

// What holds between the steps of different ranks.
enum class StepMode : std::uint8_t {
    kIndependent,     // nothing: parameters are whole on every rank, or sharded and gathered once
    kRounds,          // all ranks take their steps together, for every step gathers parameters
    kRoundsOneDepth,  // and those of a round recompute the same layers
};

// "independent", "rounds", "rounds-one-depth"; ConfigError for any other.
StepMode parse_step_mode(std::string_view text);
std::string_view to_string(StepMode mode);

struct Problem {
    std::vector<Sequence> sequences;
    std::shared_ptr<const CostModel> cost;
    Topology topology;
    std::vector<int> degrees;  // allowed, rising, each from 1 to topology.ranks
    Heads heads;
    double memory_budget_bytes = 0;  // of each rank
    bool may_recompute = false;      // false: every step keeps everything
    StepMode step_mode = StepMode::kIndependent;
    // Longest sequence of the whole run: what planners with one SP degree for the run size it by.
    std::int64_t longest_tokens = 0;  // 0: the longest of `sequences`

    int max_recompute_layers() const { return may_recompute ? cost->layers() : 0; }
    std::int64_t longest() const;
};

// 1 to `ranks`; the powers of two up to `ranks`.
std::vector<int> any_degrees(int ranks);
std::vector<int> power_of_two_degrees(int ranks);

// Throws PlanError where the problem itself makes no sense: no rank, no allowed degree, a sequence
// without tokens, ...
void check_problem(const Problem& problem);

// Lets the cost model count the squared tokens of every sequence. Needed after the sequences or the
// cost model have changed, where sequences have two dimensions.
void weigh(Problem& problem);

Load load_of(const Problem& problem, const std::vector<std::int32_t>& sequences);

// Of a sequence with so many tokens, one as dear a token as the dearest of the problem where
// those have two dimensions.
Load load_like(const Problem& problem, std::int64_t tokens);

// Cost on ranks of speed 1, with the strategy a planner prefers.
StepCost cost_of(const Problem& problem, const Load& load, int degree, int recompute_layers);
// Cost of a step as it stands: its strategy, and its slowest rank sets the time of its compute.
StepCost cost_of(const Problem& problem, const Step& step);

bool fits(const Problem& problem, const Load& load, int degree, int recompute_layers);

// The recompute depth that needs least memory; with recompute allowed it is 0 or full depth.
int leanest_depth(const Problem& problem, const Load& load, int degree);

// Throws PlanError for the first sequence (the longest of the run comes last) that no allowed
// degree and depth can hold: its need, the budget, what would make it fit, and how many others
// there are.
void require_all_fit(const Problem& problem);

// Fills in what the cost model predicts (start, seconds, peak bytes of every step, makespan) for
// steps in their global order. In rounds, the n-th step of every rank starts when all ranks have
// finished the one before.
Plan predicted(const Problem& problem, std::vector<Step> steps);

}  // namespace dcp::plan
