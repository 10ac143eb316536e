// A read-only dataset of documents, each a run of tokens. Two layouts are read, told apart by the
// files themselves:
//
//   - Megatron-style indexed dataset: PREFIX.bin and PREFIX.idx (megatron_index.hpp);
//   - llm.c shard: one .bin, 1024 bytes of header (256 int32: magic 20240520, version 1, count) and
//     uint16 tokens, or magic 20240801, version 7 and uint32 tokens.
//
// An llm.c shard stores no document boundaries. What separates documents in it is a matter of the
// tokenizer that made it, which it does not name either, so nothing is guessed: a shard is one
// document, and the sequence table cuts it by max_tokens.
//
// Whatever can be wrong with the files is found when they are opened; reading afterwards only
// copies. All offsets are 64-bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.hpp"
#include "core/data/megatron_index.hpp"
#include "core/data/token_type.hpp"

namespace dcp::data {

enum class StoreKind : std::uint8_t { kMegatron, kLlmc };

struct TokenRange {
    std::int64_t min = 0;
    std::int64_t max = -1;  // below min: there are no tokens
};

// First word of an llm.c shard.
inline constexpr std::int32_t kLlmcMagic = 20240520;
inline constexpr std::int32_t kLlmcLlamaMagic = 20240801;

// What to do about a token outside the vocabulary depends on who asks; this is for training.
inline constexpr std::string_view kVocabAdvice =
    "raise model.vocab, or make the dataset with the model's tokenizer";

class TokenStore {
public:
    // `path` is PREFIX, PREFIX.bin, PREFIX.idx or an llm.c shard. With a vocab above 0 every
    // token of the dataset is read once and must be in [0, vocab). Throws DataError: file, what is
    // wrong, what to do.
    explicit TokenStore(const std::string& path,
                        std::int64_t vocab = 0,
                        std::string_view vocab_advice = kVocabAdvice);

    const std::string& name() const { return name_; }  // the prefix, or the shard's file
    StoreKind kind() const { return kind_; }
    TokenType token_type() const { return token_type_; }
    const MegatronIndex& index() const { return index_; }  // empty for an llm.c shard

    std::int64_t num_documents() const {
        return static_cast<std::int64_t>(document_begin_.size()) - 1;
    }
    std::int64_t num_tokens() const { return document_begin_.back(); }
    std::int64_t document_tokens(std::int64_t document) const;
    std::int64_t num_bytes() const;  // of its files

    // What is odd about the files but does not make them wrong; empty: nothing.
    std::string warning() const;

    // Copies tokens [first, first + out.size()) of a document. A value that int32 cannot hold
    // (possible only without a vocab) is a DataError.
    void read(std::int64_t document, std::int64_t first, std::span<std::int32_t> out) const;

    TokenRange token_range() const;  // reads the whole dataset

private:
    void open_megatron(const std::string& prefix);
    void open_llmc(MappedFile file);
    void check_vocab(std::int64_t vocab, std::string_view advice) const;
    TokenRange document_range(std::int64_t document) const;
    // Calls action(byte offset in the .bin, number of tokens) for every contiguous run of tokens
    // [first, first + count) of a document, in order.
    template <class Action>
    void for_each_run(std::int64_t document,
                      std::int64_t first,
                      std::int64_t count,
                      Action&& action) const;

    std::string name_;
    StoreKind kind_ = StoreKind::kMegatron;
    TokenType token_type_ = TokenType::kUInt16;
    MegatronIndex index_;
    MappedFile bin_;
    std::int64_t data_offset_bytes_ = 0;        // where tokens start in bin_
    std::vector<std::int64_t> document_begin_;  // tokens of all documents before; one more entry
};

}  // namespace dcp::data
