// Which sequences fill a micro-batch best: a subset sum, exact.
//
// Where a rank has memory for few sequences, and they fill nearly all of it, packing one after the
// other leaves too much empty: four micro-batches a rank at 99 % become five.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/draft.hpp"
#include "core/plan/gang.hpp"
#include "core/plan/micro_costs.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

// Positions in `tokens` (longest first), rising, whose sum leaves at most `slack` of `room`; where
// no set does, of one that comes nearest to `room` without exceeding it. Of several such sets the
// one with the longest first: what is short is easier to place later. Takes tokens.size() *
// room / 64 steps.
std::vector<std::size_t> fullest(const std::vector<std::int64_t>& tokens,
                                 std::int64_t room,
                                 std::int64_t slack);

// Fills what memory leaves in the gang with sequences of the list (longest first), which are taken
// from it; the shortest of them stay where the gang would take longer than `most_seconds`. It may
// leave as much of its ranks' memory empty as all ranks of the fewest micro-batches would.
void fill_up(const Problem& problem,
             const MicroCosts& costs,
             double most_seconds,
             Gang& gang,
             std::vector<std::int32_t>& longest_first);

}  // namespace dcp::plan
