// The .idx file of a Megatron-style indexed dataset, checked against its .bin when it is opened.
//
//     0   "MMIDIDX\0\0"                   34         int32[S]  elements of each sequence
//     9   u64 version, 1                  34 + 4S    int64[S]  byte offset of each in the .bin
//     17  u8 element type code            34 + 12S   int64[D]  first sequence of each document,
//     18  u64 S, 26  u64 D                                     then S; so D = documents + 1
//                                         34+12S+8D  int8[S]   modes, only in multimodal sets
//
// All little-endian and nothing is aligned (34 is even at best), so fields are copied out, never
// dereferenced in place. Whether modes follow is written nowhere: the file's size decides.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/mapped_file.hpp"
#include "core/data/token_type.hpp"

namespace dcp::data {

class MegatronIndex {
public:
    MegatronIndex() = default;
    // Throws DataError naming the first thing that cannot be true of the pair of files.
    MegatronIndex(MappedFile file, const std::string& bin_path, std::int64_t bin_bytes);

    std::int64_t num_bytes() const { return static_cast<std::int64_t>(file_.bytes().size()); }
    TokenType token_type() const { return token_type_; }
    std::int64_t num_sequences() const { return num_sequences_; }
    std::int64_t num_documents() const { return num_documents_; }
    bool has_modes() const { return has_modes_; }
    // Sequences follow each other in the .bin without gaps, as all known writers make them.
    bool is_contiguous() const { return is_contiguous_; }
    std::int64_t unused_bytes() const { return unused_bytes_; }  // of the .bin, behind the last one

    std::int64_t sequence_tokens(std::int64_t sequence) const;
    std::int64_t sequence_offset_bytes(std::int64_t sequence) const;
    // The sequences of document d are [document_begin(d), document_begin(d + 1)).
    std::int64_t document_begin(std::int64_t document) const;

private:
    void read_header();
    void check_documents() const;
    void check_sequences(const std::string& bin_path, std::int64_t bin_bytes);
    void check_overlap() const;
    [[noreturn]] void fail(const std::string& what) const;

    MappedFile file_;
    TokenType token_type_ = TokenType::kUInt16;
    std::int64_t num_sequences_ = 0;
    std::int64_t num_documents_ = 0;
    bool has_modes_ = false;
    bool is_contiguous_ = true;
    std::int64_t unused_bytes_ = 0;
};

}  // namespace dcp::data
