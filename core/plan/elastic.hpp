// Batches whose number of sequences floats: what time ranks have left is filled with the sequences
// that come next, and the makespan stays what it is.
#pragma once

#include <cstddef>
#include <span>

#include "core/plan/problem.hpp"

namespace dcp::plan {

// Appends sequences of `next` to the problem and micro-batches of them to its plan, in their order,
// until one finds no room: which sequences are trained, and in what order batches take them, never
// depends on the plan. Only for independent steps. Returns how many were taken.
std::size_t fill_idle_time(Problem& problem, Plan& plan, std::span<const Sequence> next);

}  // namespace dcp::plan
