// Local search over plans in rounds: shorter rounds of the same sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/round_state.hpp"

namespace dcp::plan {

// Annealing over all rounds with a fixed number of moves: a sequence to another group or a new one,
// two sequences exchanged, the work of two groups exchanged, two groups of a round made one, one
// made two, a group on more or fewer ranks or moved to another round. The shortest found; never
// longer than what it is given.
std::vector<RoundState> improve_rounds(const Problem& problem,
                                       std::vector<RoundState> rounds,
                                       std::int64_t moves,
                                       std::uint64_t seed);

}  // namespace dcp::plan
