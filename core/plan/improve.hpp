// Local search on a draft: annealing with a fixed number of moves, decided by exact arithmetic, so
// that the same draft gives the same plan on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/draft.hpp"

namespace dcp::plan {

// Sequences by tokens, short first. A search that improves many drafts of a problem sorts once.
// With thousands of sequences moves wait for memory, so it is kept small.
struct LengthOrder {
    explicit LengthOrder(const Problem& problem);

    std::vector<std::int32_t> sequences;
    std::vector<std::uint32_t> places;  // of each sequence in that order
    std::vector<Load> loads;            // of each sequence
};

struct ImproveEffort {
    std::int64_t moves = 0;
    std::uint64_t seed = 0;
    // Micro-batches on several ranks keep their sequences, so that nobody waits for longer.
    bool gangs_stay = false;
};

// Moves and exchanges sequences between micro-batches until no rank is busy for longer than a time
// that is lowered towards `bound_seconds` whenever that succeeds. Groups stay what they are; bins
// may become empty and single-rank ones are opened. Returns the best draft met.
Draft improve(Draft draft, double bound_seconds, const ImproveEffort& effort);
Draft improve(Draft draft,
              const LengthOrder& order,
              double bound_seconds,
              const ImproveEffort& effort);

}  // namespace dcp::plan
