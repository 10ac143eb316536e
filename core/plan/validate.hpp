// The promises of a plan. Every planner keeps them, and every rank checks them before the first
// collective: a plan that came over a wire or out of a file is trusted only after this.
#pragma once

#include "core/plan/problem.hpp"

namespace dcp::plan {

// Every sequence in exactly one step; ranks sorted, unique and in range; the node rule; degree
// allowed; strategy possible; recompute depth in range. Needs no cost model but its number of
// layers. PlanError names the first broken promise.
void validate_layout(const Problem& problem, const Plan& plan);

// The layout, every step within the memory budget, and every predicted number what the cost model
// says in the plan's own order (relative 1e-9: compilers differ in the last bits of a logarithm).
// Of a lower bound only that it lies between 0 and the makespan: some are stronger than others.
void validate(const Problem& problem, const Plan& plan);

// What whoever makes plans hands out: in debug builds every plan is validated on its way.
inline Plan checked([[maybe_unused]] const Problem& problem, Plan plan) {
#ifndef NDEBUG
    validate(problem, plan);
#endif
    return plan;
}

}  // namespace dcp::plan
