// What no single key can say: values that follow from other keys, and keys that must agree.
#pragma once

#include "core/config/reader.hpp"

namespace dcp::config {

// Fills in the values that follow from others where `provenance` has no entry for them, then checks
// all keys against each other. On return every key of the schema has an entry.
void complete_and_check(Reading& reading);

}  // namespace dcp::config
