#include "core/train/byte_frequency.hpp"

#include <cmath>
#include <vector>

namespace dcp::train {

namespace {

// How often each token is a target in these sequences, up to max_tokens targets.
std::vector<std::int64_t> count_targets(const data::SequenceTable& table,
                                        std::span<const std::int64_t> sequences,
                                        std::int64_t vocab,
                                        std::int64_t max_tokens) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab));
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> targets;
    std::int64_t read_tokens = 0;
    for (const std::int64_t sequence : sequences) {
        const std::int64_t tokens = table.tokens(sequence);
        if (read_tokens + tokens > max_tokens && read_tokens > 0) {
            break;
        }
        read_tokens += tokens;
        inputs.resize(static_cast<std::size_t>(tokens));
        targets.resize(static_cast<std::size_t>(tokens));
        table.load(sequence, inputs, targets);
        for (const std::int32_t token : targets) {
            ++counts[static_cast<std::size_t>(token)];
        }
    }
    return counts;
}

std::int64_t sum(std::span<const std::int64_t> counts) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
        total += count;
    }
    return total;
}

}  // namespace

double frequency_model_loss(const data::SequenceTable& table,
                            std::span<const std::int64_t> counted,
                            std::span<const std::int64_t> evaluated,
                            std::int64_t vocab,
                            std::int64_t max_tokens) {
    const auto model = count_targets(table, counted, vocab, max_tokens);
    const auto text = count_targets(table, evaluated, vocab, max_tokens);
    const double denominator = std::log(static_cast<double>(sum(model) + vocab));
    double loss = 0;
    for (std::size_t token = 0; token < text.size(); ++token) {
        loss += static_cast<double>(text[token]) *
                (denominator - std::log(static_cast<double>(model[token] + 1)));
    }
    return loss / static_cast<double>(std::max<std::int64_t>(sum(text), 1));
}

}  // namespace dcp::train
