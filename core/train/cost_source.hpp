// From a cost file to the cost model that planners see.
#pragma once

#include <memory>
#include <string>

#include "core/config/cost_file.hpp"
#include "core/plan/closed_form.hpp"

namespace dcp::train {

std::shared_ptr<const plan::CostModel> cost_model(const config::CostFile& file);

// Degrees as the command line and the configuration write them: "any", "pow2" or a rising list such
// as "1,2,4"; those above the number of ranks are left out. ConfigError for anything else, naming
// `option`.
std::vector<int> parse_degrees(const std::string& text, int ranks, const std::string& option);

}  // namespace dcp::train
