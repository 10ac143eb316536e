#include "core/data/sequences.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"

namespace dcp::data {
namespace {

std::size_t at(std::int64_t index) {
    return static_cast<std::size_t>(index);
}

// Index of the last entry that is not above `value`; entries ascend, the first is not above it.
// Among equal entries the last one, so empty ranges are passed over.
std::int64_t last_not_above(const std::vector<std::int64_t>& entries, std::int64_t value) {
    return std::upper_bound(entries.begin(), entries.end(), value) - entries.begin() - 1;
}

std::string counts_of(const SequenceTable& table) {
    return fmt::format("{} documents, of them {} with one token and {} with none",
                       table.num_documents(), table.num_one_token_documents(),
                       table.num_empty_documents());
}

}  // namespace

SequenceTable::SequenceTable(std::vector<TokenStore> stores, std::int64_t max_tokens)
    : stores_(std::move(stores)), max_tokens_(max_tokens) {
    if (max_tokens < 1) {
        throw DataError(fmt::format("data.max_tokens is {}; it must be at least 1", max_tokens));
    }
    first_document_.push_back(0);
    for (const TokenStore& store : stores_) {
        first_document_.push_back(first_document_.back() + store.num_documents());
    }
    first_sequence_.reserve(at(first_document_.back()) + 1);
    first_sequence_.push_back(0);
    for (const TokenStore& store : stores_) {
        for (std::int64_t document = 0; document < store.num_documents(); ++document) {
            const std::int64_t tokens = store.document_tokens(document);
            const std::int64_t pairs = std::max<std::int64_t>(tokens - 1, 0);
            num_one_token_documents_ += tokens == 1 ? 1 : 0;
            num_empty_documents_ += tokens == 0 ? 1 : 0;
            num_pairs_ += pairs;
            const std::int64_t pieces = pairs / max_tokens + (pairs % max_tokens > 0 ? 1 : 0);
            first_sequence_.push_back(first_sequence_.back() + pieces);
        }
    }
}

SequenceTable SequenceTable::open(const std::vector<std::string>& paths,
                                  std::int64_t max_tokens,
                                  std::int64_t vocab,
                                  std::string_view vocab_advice) {
    std::vector<TokenStore> stores;
    stores.reserve(paths.size());
    for (const std::string& path : paths) {
        stores.emplace_back(path, vocab, vocab_advice);
    }
    SequenceTable table(std::move(stores), max_tokens);
    if (table.num_sequences() == 0) {
        throw DataError(
            fmt::format("{}: no sequence to draw ({}); a document needs two tokens to "
                        "give a pair",
                        fmt::join(paths, ", "), counts_of(table)));
    }
    return table;
}

SequenceTable::Place SequenceTable::place(std::int64_t document) const {
    const std::int64_t store = last_not_above(first_document_, document);
    return {&stores_[at(store)], document - first_document_[at(store)]};
}

std::int64_t SequenceTable::document_tokens(std::int64_t document) const {
    const Place where = place(document);
    return where.store->document_tokens(where.document);
}

std::int64_t SequenceTable::document(std::int64_t sequence) const {
    if (sequence < 0 || sequence >= num_sequences()) {
        throw ShapeError(fmt::format("sequence {} asked of {}", sequence, num_sequences()));
    }
    return last_not_above(first_sequence_, sequence);
}

std::int64_t SequenceTable::tokens(std::int64_t sequence) const {
    const std::int64_t owner = document(sequence);
    const std::int64_t before = (sequence - first_sequence(owner)) * max_tokens_;
    return std::min(max_tokens_, document_tokens(owner) - 1 - before);
}

void SequenceTable::load(std::int64_t sequence,
                         std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets) const {
    const std::int64_t owner = document(sequence);
    const auto count = at(tokens(sequence));
    if (inputs.size() != count || targets.size() != count) {
        throw ShapeError(fmt::format("sequence {} has {} tokens, not {} inputs and {} targets",
                                     sequence, count, inputs.size(), targets.size()));
    }
    const Place where = place(owner);
    const std::int64_t first = (sequence - first_sequence(owner)) * max_tokens_;
    where.store->read(where.document, first + 1, targets);
    where.store->read(where.document, first, inputs.first(1));
    std::copy(targets.begin(), targets.end() - 1, inputs.begin() + 1);
}

Split::Split(const SequenceTable& table, std::int64_t validation_documents) {
    std::vector<std::int64_t> candidates;
    for (std::int64_t document = 0; document < table.num_documents(); ++document) {
        if (table.first_sequence(document) < table.first_sequence(document + 1)) {
            candidates.push_back(document);
        }
    }
    const auto count = static_cast<std::int64_t>(candidates.size());
    if (validation_documents < 0 || validation_documents >= std::max<std::int64_t>(count, 1)) {
        throw DataError(
            fmt::format("data.validation_documents is {}, but the data has {}; {} have something "
                        "to predict, so it must be from 0 to {}",
                        validation_documents, counts_of(table), count, count - 1));
    }
    if (count == 0) {
        throw DataError(fmt::format("no training sequence: {}", counts_of(table)));
    }
    const Permutation order(count, 0, 0);
    for (std::int64_t position = count - validation_documents; position < count; ++position) {
        documents_.push_back(candidates[at(order(position))]);
    }
    std::sort(documents_.begin(), documents_.end());
    held_before_.push_back(0);
    for (const std::int64_t document : documents_) {
        first_.push_back(table.first_sequence(document));
        held_before_.push_back(held_before_.back() + table.first_sequence(document + 1) -
                               table.first_sequence(document));
    }
    num_training_ = table.num_sequences() - num_validation();
}

std::int64_t Split::training(std::int64_t index) const {
    // Held-out document j stands behind first_[j] - held_before_[j] training sequences, a number
    // that ascends with j: those not above `index` come before it.
    std::int64_t low = 0;
    auto high = static_cast<std::int64_t>(first_.size());
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (first_[at(middle)] - held_before_[at(middle)] <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return index + held_before_[at(low)];
}

std::int64_t Split::validation(std::int64_t index) const {
    const std::int64_t owner = last_not_above(held_before_, index);
    return first_[at(owner)] + index - held_before_[at(owner)];
}

}  // namespace dcp::data
