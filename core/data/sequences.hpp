// The sequences that training draws: every document of n tokens gives n - 1 (input, target) pairs,
// cut into pieces of at most max_tokens pairs; a piece is a sequence and its `tokens` are its
// pairs. Piece k of a document has inputs [k * max_tokens, ...) and targets one further on, so
// neighbouring pieces share one token and no pair is lost or seen twice.
//
// Sequences are numbered from 0 over the data sets in the order given, their documents in order and
// the pieces in order. Documents of one token or none have no pair: they are counted and have no
// number. These ids are what logs and plans show.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/token_store.hpp"

namespace dcp::data {

class SequenceTable {
public:
    // max_tokens > 0. Holds 8 bytes a document (as does each store), nothing a sequence.
    SequenceTable(std::vector<TokenStore> stores, std::int64_t max_tokens);

    // Opens the data sets and requires that they hold a sequence at all.
    static SequenceTable open(const std::vector<std::string>& paths,
                              std::int64_t max_tokens,
                              std::int64_t vocab,
                              std::string_view vocab_advice = kVocabAdvice);

    const std::vector<TokenStore>& stores() const { return stores_; }
    std::int64_t max_tokens() const { return max_tokens_; }
    std::int64_t num_sequences() const { return first_sequence_.back(); }
    std::int64_t num_documents() const {  // all, those without a pair included
        return static_cast<std::int64_t>(first_sequence_.size()) - 1;
    }
    std::int64_t num_one_token_documents() const { return num_one_token_documents_; }
    std::int64_t num_empty_documents() const { return num_empty_documents_; }
    std::int64_t num_pairs() const { return num_pairs_; }  // the tokens of an epoch

    std::int64_t document_tokens(std::int64_t document) const;  // stored tokens
    // The sequences of a document are [first_sequence(d), first_sequence(d + 1)).
    std::int64_t first_sequence(std::int64_t document) const {
        return first_sequence_[static_cast<std::size_t>(document)];
    }

    std::int64_t document(std::int64_t sequence) const;
    std::int64_t tokens(std::int64_t sequence) const;
    // Both spans have exactly tokens(sequence) elements (ShapeError).
    void load(std::int64_t sequence,
              std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const;

private:
    struct Place {
        const TokenStore* store;
        std::int64_t document;  // in the store
    };
    Place place(std::int64_t document) const;

    std::vector<TokenStore> stores_;
    std::vector<std::int64_t> first_document_;  // of each store; one more entry
    std::vector<std::int64_t> first_sequence_;  // of each document; one more entry
    std::int64_t max_tokens_;
    std::int64_t num_one_token_documents_ = 0;
    std::int64_t num_empty_documents_ = 0;
    std::int64_t num_pairs_ = 0;
};

// Which sequences are trained and which are held out: the documents that have a pair, in their
// order, are shuffled by Permutation(their number, 0, 0), and the last `validation_documents` of
// them are held out, whole. Documents without a pair would make an empty part, so they do not
// count. Both parts keep the ids of the table.
class Split {
public:
    // DataError with the counts when a part that was asked for has no sequence.
    Split(const SequenceTable& table, std::int64_t validation_documents);

    std::int64_t num_training() const { return num_training_; }
    std::int64_t num_validation() const { return held_before_.back(); }
    std::int64_t training(std::int64_t index) const;  // 0 <= index < num_training(), ascending ids
    std::int64_t validation(
        std::int64_t index) const;  // 0 <= index < num_validation(), ascending ids
    const std::vector<std::int64_t>& validation_documents() const {
        return documents_;
    }  // ascending

private:
    std::vector<std::int64_t> documents_;
    std::vector<std::int64_t> first_;        // first sequence of each held-out document
    std::vector<std::int64_t> held_before_;  // held-out sequences before it; one more entry
    std::int64_t num_training_ = 0;
};

}  // namespace dcp::data
