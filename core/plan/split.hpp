// Large clusters are planned in pieces: runs of whole nodes, each with its share of the sequences.
#pragma once

#include <vector>

#include "core/plan/draft.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

struct Piece {
    Problem problem;                      // of the piece alone
    std::vector<std::int32_t> sequences;  // what its sequences are in the whole problem
    int first_rank = 0;
};

// Pieces whose sequences are equally much work for a rank, when a plan takes little longer than
// `bound_seconds`. Fewer than two: too small to split, or some sequence would need most of a piece.
std::vector<Piece> split(const Problem& problem, double bound_seconds);

// A step of a piece's plan as a step of the whole.
Step whole_step(const Piece& piece, Step step);

// The draft that steps() would turn into these steps, gangs first.
Draft draft_of(const Problem& problem, const MicroCosts& costs, const std::vector<Step>& steps);

}  // namespace dcp::plan
