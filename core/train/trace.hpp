// An iteration for ui.perfetto.dev: a process a rank with two tracks, the steps as they were
// planned and as they ran. Chrome's trace events, in JSON.
#pragma once

#include <cstdint>
#include <string>

#include "core/train/report.hpp"

namespace dcp::train {

std::string trace_file_name(std::int64_t iteration);  // "trace-000005.json"

// Track 0 of a rank is the plan, track 1 reality: there a step comes after the time it waited for
// its peers, and inside it stand its computing and its communication. These are sums over the step,
// drawn one after the other: where in the step they were is not measured. On one rank, where
// nothing is predicted, track 0 is left out. Both begin when the rank has the plan.
std::string to_trace(const IterationReport& report);

}  // namespace dcp::train
