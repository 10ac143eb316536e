#include "core/train/trainer.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/train/byte_frequency.hpp"
#include "core/train/weights.hpp"

namespace dcp::train {

Trainer::Trainer(const config::Config& config)
    : config_(config),
      machine_(resolve_machine(
          config.run.device, config.run.dtype, config.run.threads, config.memory.budget)),
      queue_(Queue::cpu(machine_.threads)),
      arena_(machine_.budget_bytes),
      schedule_(config.schedule, config.optimizer.lr, config.run.iterations) {
    open_data();
    make_model();
    check_memory();
}

void Trainer::open_data() {
    const config::DataConfig& data = config_.data;
    table_ = std::make_unique<data::SequenceTable>(
        data::SequenceTable::open(data.train, data.max_tokens, config_.model.vocab));
    split_ = std::make_unique<data::Split>(*table_, data.validation_documents);
    sampler_ = std::make_unique<data::Sampler>(
        *table_, *split_, static_cast<std::uint64_t>(config_.run.seed),
        data::BatchSize{.sequences = config_.batch.sequences, .tokens = config_.batch.tokens});
    if (!data.validation.empty()) {
        validation_table_ = std::make_unique<data::SequenceTable>(
            data::SequenceTable::open(data.validation, data.max_tokens, config_.model.vocab));
        validation_.resize(static_cast<std::size_t>(validation_table_->num_sequences()));
        std::iota(validation_.begin(), validation_.end(), 0);
    } else {
        for (std::int64_t index = 0; index < split_->num_validation(); ++index) {
            validation_.push_back(split_->validation(index));
        }
    }
    micro_batch_tokens_ =
        config_.batch.micro_batch_tokens > 0 ? config_.batch.micro_batch_tokens : data.max_tokens;
    loader_ = std::make_unique<BatchLoader>(*table_);
}

void Trainer::make_model() {
    model_ = std::make_unique<model::Transformer>(config_.model, machine_.compute,
                                                  config_.data.max_tokens,
                                                  model::Purpose::kTraining, queue_, arena_);
    if (config_.model.init_from.empty()) {
        model_->initialize(queue_, static_cast<std::uint64_t>(config_.run.seed));
    } else {
        load_weights(config_.model.init_from, queue_, *model_);
    }
    model_->prepare(queue_);
    optimizer_ = std::make_unique<Optimizer>(config_.optimizer, model_->layout(), queue_, arena_);
    evaluator_ = std::make_unique<Evaluator>(
        *model_, validation_table_ ? *validation_table_ : *table_, micro_batch_tokens_);
}

std::int64_t Trainer::longest_sequence() const {
    std::int64_t longest = 0;
    for (const data::SequenceTable* table : {table_.get(), validation_table_.get()}) {
        for (std::int64_t document = 0; table != nullptr && document < table->num_documents();
             ++document) {
            longest = std::max(longest,
                               std::min(table->document_tokens(document) - 1, table->max_tokens()));
        }
    }
    return longest;
}

// A rare long sequence must not end a run after hours: the largest micro-batch that this data can
// produce is checked now.
void Trainer::check_memory() {
    const std::int64_t longest = longest_sequence();
    const std::int64_t held_bytes = arena_.current_bytes();
    const auto peak_bytes = [&](std::int64_t T) {
        const std::int64_t losses =
            Arena::padded_bytes(DType::kFloat32, {T}) + 2 * Arena::kAlignmentBytes;
        const std::int64_t evaluation =
            validation_.empty() ? 0 : model_->evaluation_bytes(queue_, T);
        return held_bytes + BatchLoader::bytes(T) + losses +
               std::max(model_->training_bytes(queue_, T, config_.model.recompute_layers),
                        evaluation);
    };
    // A batch may be smaller than a micro-batch; held-out sequences are packed up to the limit.
    const std::int64_t in_batch = config_.batch.sequences > 0
                                      ? config_.batch.sequences * longest
                                      : std::max(config_.batch.tokens, longest);
    const std::int64_t largest =
        validation_.empty() ? std::min(micro_batch_tokens_, in_batch) : micro_batch_tokens_;
    predicted_peak_bytes_ = peak_bytes(largest);
    if (predicted_peak_bytes_ <= arena_.budget_bytes()) {
        return;
    }
    std::int64_t fits = 0;
    for (std::int64_t step = largest; step > 0; step /= 2) {
        while (fits + step <= largest && peak_bytes(fits + step) <= arena_.budget_bytes()) {
            fits += step;
        }
    }
    throw ConfigError(
        fmt::format("memory.budget is too small: a micro-batch of {} tokens (the longest sequence "
                    "has {}) needs {}, of which {} are parameters, "
                    "gradients and optimizer states, and the budget is {}; the most that fits is "
                    "{} tokens. Raise memory.budget, lower "
                    "batch.micro_batch_tokens or data.max_tokens, or raise model.recompute_layers "
                    "({} of {} now)",
                    largest, longest, format_bytes(predicted_peak_bytes_), format_bytes(held_bytes),
                    format_bytes(arena_.budget_bytes()), fits, config_.model.recompute_layers,
                    config_.model.layers));
}

double Trainer::validate() {
    return evaluator_->run(queue_, arena_, validation_).mean();
}

double Trainer::frequency_loss() const {
    constexpr std::int64_t kMaxTokens = 16'000'000;  // a fraction of a second
    constexpr std::int64_t kMaxSequences = 1'000'000;
    std::vector<std::int64_t> counted;
    for (std::int64_t index = 0; index < std::min(split_->num_training(), kMaxSequences); ++index) {
        counted.push_back(split_->training(index));
    }
    const bool other_table = validation_table_ != nullptr;
    return frequency_model_loss(*table_, counted,
                                other_table || validation_.empty() ? counted : validation_,
                                config_.model.vocab, kMaxTokens);
}

void Trainer::save_weights(const std::string& folder) {
    train::save_weights(folder, config_.data.max_tokens, queue_, *model_);
}

}  // namespace dcp::train
