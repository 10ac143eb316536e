// Puts this rank's share of a micro-batch on the device.
#pragma once

#include <span>
#include <vector>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/data/packing.hpp"
#include "core/data/sequences.hpp"
#include "core/model/micro_batch.hpp"
#include "core/model/sharding.hpp"

namespace dcp::train {

class BatchLoader {
public:
    // `table` must outlive the loader.
    explicit BatchLoader(const data::SequenceTable& table) : table_(table) {}

    // The tokens of `pieces`, in their order; a piece names a sequence by its place in `sequences`.
    // weights: one a sequence, what each of its tokens counts in the loss of the iteration. Spans
    // are those of whole sequences, where every piece is one. Tensors are pushed onto the arena and
    // live as long as the caller's scope; the result is valid until the next call.
    const model::MicroBatch& load(Queue& queue,
                                  Arena& arena,
                                  std::span<const std::int64_t> sequences,
                                  std::span<const float> weights,
                                  std::span<const model::Piece> pieces);
    // All tokens of all sequences.
    const model::MicroBatch& load(Queue& queue,
                                  Arena& arena,
                                  std::span<const std::int64_t> sequences,
                                  std::span<const float> weights);

    // What load pushes for T tokens.
    static std::int64_t bytes(std::int64_t T);

private:
    const data::SequenceTable& table_;
    data::PackedBatch packed_;
    data::PackedBatch local_;
    std::vector<float> weights_T_;
    std::vector<model::Piece> whole_;
    model::MicroBatch batch_;
};

}  // namespace dcp::train
