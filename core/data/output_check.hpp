// Where a new dataset may be written.
#pragma once

#include <string>
#include <vector>

namespace dcp::data {

// An output among the inputs would be read while it grows, or be read by the next run: DataError.
void check_output(const std::string& prefix, const std::vector<std::string>& inputs);

// A .bin is ours to replace when a Megatron index is beside it, or the half-finished one of a run
// that was killed; otherwise it is somebody's file that happens to have that name: ConfigError.
void check_replaceable(const std::string& prefix);

}  // namespace dcp::data
