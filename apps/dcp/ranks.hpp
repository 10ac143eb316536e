// The ranks of this run: MPI where a launcher has started this process, nothing where it was
// started by hand; and the configuration that they read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/config/reader.hpp"
#include "core/train/world.hpp"

namespace dcp {

// Calls `action` with the world. With MPI an exception ends every rank: one line on standard error
// and the error's exit code.
void run_in_world(const std::function<void(const train::World&)>& action);

// Collective. Every rank reads the file; what one of them finds wrong all of them throw.
config::Reading read_config_on_all(const train::World& world,
                                   const std::string& path,
                                   const std::vector<std::string>& overrides);

}  // namespace dcp
