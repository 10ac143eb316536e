// The ranks of this run: MPI where a launcher has started this process, nothing where it was
// started by hand.
#pragma once

#include <functional>

#include "core/train/world.hpp"

namespace dcp {

// Calls `action` with the world. With MPI an exception ends every rank: one line on standard error
// and the error's exit code.
void run_in_world(const std::function<void(const train::World&)>& action);

}  // namespace dcp
