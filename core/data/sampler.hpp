// Draws the global batches. The order of an epoch is Permutation(number of training sequences,
// seed, epoch), or that of the data sets; so it depends on nothing else: not on ranks, plans, batch
// size or where a run was resumed. Epochs follow each other without a gap: a batch that meets the
// end of one goes on in the next, nothing is dropped and nothing repeated. The whole state is two
// integers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/rng.hpp"
#include "core/data/sequences.hpp"

namespace dcp::data {

// Exactly one is positive.
struct BatchSize {
    std::int64_t sequences = 0;  // exactly so many
    std::int64_t tokens = 0;     // as many as fit, at least one
};

enum class SampleOrder : std::uint8_t {
    kShuffled,
    kStored,  // by ascending ids, the same in every epoch
};

struct SamplerState {
    std::int64_t epoch = 0;
    std::int64_t position = 0;  // of the next sequence in the epoch's order

    bool operator==(const SamplerState&) const = default;
};

class Sampler {
public:
    // `table` and `split` must outlive the sampler.
    Sampler(const SequenceTable& table,
            const Split& split,
            std::uint64_t seed,
            BatchSize batch,
            SampleOrder order = SampleOrder::kShuffled);

    std::vector<std::int64_t> next();  // ids of the next global batch, in the order drawn

    SamplerState state() const { return state_; }
    void restore(SamplerState state);  // DataError when the data set has no such position

private:
    std::int64_t peek() const;
    void advance();

    const SequenceTable* table_;
    const Split* split_;
    std::uint64_t seed_;
    BatchSize batch_;
    SampleOrder order_;
    SamplerState state_;
    Permutation permutation_;  // of kShuffled
};

}  // namespace dcp::data
