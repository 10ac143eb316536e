// `dcp plan --check`: plans out of a file against every promise of a plan.
#pragma once

#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/plan_options.hpp"

namespace dcp {

// Checks every plan of the file and says how many there are; PlanError names file, line and the
// first promise that is broken.
void check_file(const PlanOptions& options, const CostChoice& choice);

}  // namespace dcp
