// Puts a micro-batch on the device.
#pragma once

#include <span>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/data/packing.hpp"
#include "core/data/sequences.hpp"
#include "core/model/micro_batch.hpp"

namespace dcp::train {

class BatchLoader {
public:
    // `table` must outlive the loader.
    explicit BatchLoader(const data::SequenceTable& table) : table_(table) {}

    // Packs these sequences in this order. weights: one a sequence, what each of its tokens counts
    // in the loss of the iteration. Tensors are pushed onto the arena and live as long as the
    // caller's scope; the result is valid until the next call.
    const model::MicroBatch& load(Queue& queue,
                                  Arena& arena,
                                  std::span<const std::int64_t> sequences,
                                  std::span<const float> weights);

    // What load pushes for T tokens.
    static std::int64_t bytes(std::int64_t T);

private:
    const data::SequenceTable& table_;
    data::PackedBatch packed_;
    std::vector<float> weights_T_;
    model::MicroBatch batch_;
};

}  // namespace dcp::train
