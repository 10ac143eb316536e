// What no single key can say: values that follow from other keys, and keys that must agree.
#pragma once

#include "core/config/reader.hpp"

namespace dcp::config {

// Fills in the values that follow from others where `provenance` has no entry for them, then checks
// all keys against each other. On return every key of the schema has an entry. `file` is the one
// that should have what is missing.
void complete_and_check(Reading& reading, const std::string& file);

}  // namespace dcp::config
