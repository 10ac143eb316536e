// Quantile tables of real data sets, made by scripts/make_length_tables.py.
#pragma once

#include <span>
#include <string_view>

#include "core/lengths/laws.hpp"

namespace dcp::lengths {

// Knots by rising share, the first at share 0, shares and lengths never falling; empty: no such
// table.
std::span<const Knot> quantile_knots(std::string_view name);

}  // namespace dcp::lengths
