// Large clusters are planned in pieces: runs of whole nodes, each with its share of the sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/draft.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

struct Piece {
    Problem problem;                      // of the piece alone
    std::vector<std::int32_t> sequences;  // what its sequences are in the whole problem
    int first_rank = 0;
};

// Pieces may be as narrow as the longest sequence allows: that they can hold it; or that they can
// have it done when a plan takes little longer than the bound.
enum class PieceWidth : std::uint8_t { kHolding, kQuick };

// Pieces whose sequences are equally much work for a rank, when a plan takes little longer than
// `bound_seconds`. Fewer than two: too small to split, or some sequence would need most of a piece.
std::vector<Piece> split(const Problem& problem,
                         const MicroCosts& costs,
                         double bound_seconds,
                         PieceWidth width);

// Opens a draft of a piece in one of the whole problem, gangs first.
void open_whole(const Piece& piece, const Draft& draft, Draft& whole);

}  // namespace dcp::plan
