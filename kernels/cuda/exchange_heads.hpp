// What goes into and comes out of the exchanges of a Ulysses row, in one pass each: the column
// blocks of all peers, with the rotation of queries and keys (rope.hpp) where the layout changes.
// The layout is that of the copies in core/model/sharded_attention.cpp:
//
//   rows_TN   [T, (H + 2 G) D]       this rank's tokens: all query heads, key heads, value heads
//   blocks    [u T, (h + 2 g) D]     rows p T .. p T + T - 1 are peer p's: the same tokens with the
//                                    heads that it works on, h = H / u query heads from p h on
//
// Ranks have different numbers of tokens: T is this rank's own, on both sides. A peer has g key and
// value heads, one for every gcd(h, H / G) of its query heads; where u cuts the model's groups
// unevenly, a head of the model goes to several peers, or several times to one, and its gradient is
// the sum of theirs in the order of the query heads.
#pragma once

#include <cstdint>

#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::kernels::cuda {

struct ExchangedHeads {
    int peers = 1;         // u; divides all_heads
    int all_heads = 1;     // H
    int all_kv_heads = 0;  // G; divides H. 0: there are queries alone (outputs and their gradients)
    int head_dim = 2;      // D, even

    int heads() const { return all_heads / peers; }
    int shared_by() const;  // query heads of a peer that use the same of its key heads; G > 0
    int kv_heads() const { return all_kv_heads == 0 ? 0 : heads() / shared_by(); }
    std::int64_t features() const {
        return static_cast<std::int64_t>(heads() + 2 * kv_heads()) * head_dim;
    }
    std::int64_t all_features() const {
        return static_cast<std::int64_t>(all_heads + 2 * all_kv_heads) * head_dim;
    }
};

// Turns queries and keys on the way; all null: no rotation.
struct Rotation {
    ConstTensor positions_T;  // int32
    ConstTensor cos_PD;
    ConstTensor sin_PD;
};

// blocks = the heads of rows_TN, turned. Types fp32 or bf16 each, rows may be strided. Throws
// ShapeError when shapes or types disagree.
struct PackHeads {
    ExchangedHeads heads;
    ConstTensor rows_TN;
    Rotation rotation;
    Tensor blocks;
};
void pack_heads(Queue& queue, const PackHeads& args);

// rows_TN = the heads of blocks, added up where there are several, then turned back: what the
// gradients of pack_heads are. Without rotation and G = 0: outputs put together.
struct UnpackHeads {
    ExchangedHeads heads;
    ConstTensor blocks;
    Rotation rotation;
    Tensor rows_TN;
};
void unpack_heads(Queue& queue, const UnpackHeads& args);

}  // namespace dcp::kernels::cuda
