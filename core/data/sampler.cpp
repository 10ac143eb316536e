#include "core/data/sampler.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::data {

Sampler::Sampler(const SequenceTable& table,
                 const Split& split,
                 std::uint64_t seed,
                 BatchSize batch,
                 SampleOrder order)
    : table_(&table),
      split_(&split),
      seed_(seed),
      batch_(batch),
      order_(order),
      permutation_(split.num_training(), seed, 0) {
    if ((batch.sequences > 0) == (batch.tokens > 0) || batch.sequences < 0 || batch.tokens < 0) {
        throw ConfigError(
            fmt::format("batch.sequences is {} and batch.tokens {}; exactly one of "
                        "them must be positive",
                        batch.sequences, batch.tokens));
    }
}

std::int64_t Sampler::peek() const {
    return split_->training(order_ == SampleOrder::kShuffled ? permutation_(state_.position)
                                                             : state_.position);
}

void Sampler::advance() {
    ++state_.position;
    if (state_.position == permutation_.size()) {
        restore({state_.epoch + 1, 0});
    }
}

std::vector<std::int64_t> Sampler::next() {
    std::vector<std::int64_t> ids;
    if (batch_.sequences > 0) {
        while (static_cast<std::int64_t>(ids.size()) < batch_.sequences) {
            ids.push_back(peek());
            advance();
        }
        return ids;
    }
    std::int64_t tokens = 0;
    for (;;) {
        const std::int64_t id = peek();
        tokens += table_->tokens(id);
        if (!ids.empty() && tokens > batch_.tokens) {
            return ids;
        }
        ids.push_back(id);
        advance();
    }
}

void Sampler::restore(SamplerState state) {
    if (state.epoch < 0 || state.position < 0 || state.position >= permutation_.size()) {
        throw DataError(
            fmt::format("the saved position {} of epoch {} does not exist: the data has "
                        "{} training sequences; resume with the data, max_tokens and "
                        "validation_documents that the run was started with",
                        state.position, state.epoch, permutation_.size()));
    }
    state_ = state;
    permutation_ = Permutation(permutation_.size(), seed_, static_cast<std::uint64_t>(state.epoch));
}

}  // namespace dcp::data
