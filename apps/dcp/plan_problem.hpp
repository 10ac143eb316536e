// What `dcp plan` plans for, as its command line says it.
#pragma once

#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/plan_options.hpp"
#include "core/plan/problem.hpp"

namespace dcp {

// Everything but the sequences. ConfigError names the option that makes no sense.
plan::Problem problem_of(const PlanOptions& options, const CostChoice& choice, int ranks);

}  // namespace dcp
