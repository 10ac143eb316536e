#include "core/data/megatron_index.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::int64_t kVersionAt = 9;
constexpr std::int64_t kTypeAt = 17;
constexpr std::int64_t kSequenceCountAt = 18;
constexpr std::int64_t kDocumentCountAt = 26;
constexpr std::int64_t kHeaderBytes = 34;

template <class T>
T load(std::span<const std::byte> bytes, std::int64_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

}  // namespace

void MegatronIndex::fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}", file_.path(), what));
}

MegatronIndex::MegatronIndex(MappedFile file, const std::string& bin_path, std::int64_t bin_bytes)
    : file_(std::move(file)) {
    read_header();
    check_documents();
    check_sequences(bin_path, bin_bytes);
}

void MegatronIndex::read_header() {
    const auto bytes = file_.bytes();
    const auto file_bytes = static_cast<std::int64_t>(bytes.size());
    if (file_bytes == 0) {
        fail("is empty; the dataset was not written completely, make it again");
    }
    if (is_git_lfs_pointer(bytes)) {
        fail("is a git-lfs pointer, not the file itself; fetch it with `git lfs pull`");
    }
    const auto magic_bytes = std::min(file_bytes, static_cast<std::int64_t>(kMagic.size()));
    if (std::memcmp(bytes.data(), kMagic.data(), static_cast<std::size_t>(magic_bytes)) != 0) {
        fail(
            "is not the index of a Megatron dataset (it does not start with MMIDIDX); an older "
            "fairseq index or another file has that name, make the dataset again with Megatron's "
            "preprocess_data.py or `dcp data import`");
    }
    if (file_bytes < kHeaderBytes) {
        fail(fmt::format("is truncated: {} bytes, its header alone has {}; copy or make it again",
                         file_bytes, kHeaderBytes));
    }
    const auto version = load<std::uint64_t>(bytes, kVersionAt);
    if (version != 1) {
        fail(
            fmt::format("has version {}; dcp reads version 1, make it again with a tool that "
                        "writes that",
                        version));
    }
    switch (const auto code = load<std::uint8_t>(bytes, kTypeAt); code) {
        case 1:
            token_type_ = TokenType::kUInt8;
            break;
        case 2:
            token_type_ = TokenType::kInt8;
            break;
        case 3:
            token_type_ = TokenType::kInt16;
            break;
        case 4:
            token_type_ = TokenType::kInt32;
            break;
        case 5:
            token_type_ = TokenType::kInt64;
            break;
        case 8:
            token_type_ = TokenType::kUInt16;
            break;
        case 6:
        case 7:
            fail(fmt::format("holds {} elements (type code {}); tokens must be integers",
                             code == 6 ? "float64" : "float32", code));
        default:
            fail(
                fmt::format("has the unknown element type code {}; known are 1 uint8, 2 int8, "
                            "3 int16, 4 int32, 5 int64, 8 uint16: the file is damaged",
                            code));
    }
    const auto sequences = load<std::uint64_t>(bytes, kSequenceCountAt);
    const auto entries = load<std::uint64_t>(bytes, kDocumentCountAt);
    // Counts beyond the file's size are refused before they are multiplied.
    const auto most = static_cast<std::uint64_t>(file_bytes);
    if (sequences > most || entries > most) {
        fail(
            fmt::format("claims {} sequences and {} document entries but has only {} bytes: it is "
                        "truncated or damaged; copy or make it again",
                        sequences, entries, file_bytes));
    }
    num_sequences_ = static_cast<std::int64_t>(sequences);
    num_documents_ = static_cast<std::int64_t>(entries) - 1;
    const std::int64_t expected =
        kHeaderBytes + 12 * num_sequences_ + 8 * static_cast<std::int64_t>(entries);
    has_modes_ = num_sequences_ > 0 && file_bytes == expected + num_sequences_;
    if (file_bytes != expected && !has_modes_) {
        fail(
            fmt::format("{}: {} bytes, but {} sequences and {} document entries take {}; copy or "
                        "make it again",
                        file_bytes < expected ? "is truncated" : "has a wrong size", file_bytes,
                        sequences, entries, expected));
    }
}

void MegatronIndex::check_documents() const {
    if (num_documents_ < 0) {
        fail("has no document index (0 entries, at least one is needed); make it again");
    }
    if (document_begin(0) != 0) {
        fail(
            fmt::format("its first document starts at sequence {} instead of 0: the index is "
                        "damaged, make it again",
                        document_begin(0)));
    }
    // What old merge tools left behind: the second dataset's document index appended without adding
    // the sequences before it, or not appended at all (Megatron-LM #81, NeMo #9821).
    constexpr std::string_view kMerged =
        "two datasets were merged without shifting or appending the second one's documents, as "
        "older Megatron and NeMo merge tools do; merge again with a fixed tool, or give dcp the "
        "parts separately";
    for (std::int64_t document = 0; document < num_documents_; ++document) {
        const std::int64_t begin = document_begin(document);
        const std::int64_t end = document_begin(document + 1);
        if (end < begin) {
            fail(fmt::format("its document index falls from {} to {} at entry {}: {}", begin, end,
                             document + 1, kMerged));
        }
    }
    if (const std::int64_t last = document_begin(num_documents_); last < num_sequences_) {
        fail(fmt::format("its documents end at sequence {} of {}: {}", last, num_sequences_,
                         last > 0 ? kMerged : "the index is damaged, make it again"));
    } else if (last > num_sequences_) {
        fail(
            fmt::format("its documents end at sequence {} but there are only {}: the index is "
                        "damaged, make it again",
                        last, num_sequences_));
    }
}

void MegatronIndex::check_sequences(const std::string& bin_path, std::int64_t bin_bytes) {
    const std::int64_t element_bytes = size_bytes(token_type_);
    std::int64_t expected_offset = 0;
    std::int64_t used_bytes = 0;
    for (std::int64_t sequence = 0; sequence < num_sequences_; ++sequence) {
        const std::int64_t tokens = sequence_tokens(sequence);
        const std::int64_t offset = sequence_offset_bytes(sequence);
        if (tokens < 0) {
            fail(
                fmt::format("sequence {} has the negative length {}: the index is damaged, make "
                            "it again",
                            sequence, tokens));
        }
        if (offset < 0) {
            fail(
                fmt::format("sequence {} starts at the negative byte {} of the .bin: offsets "
                            "overflowed when the dataset was made (an old tool with 32-bit "
                            "arithmetic), make it again with a newer one",
                            sequence, offset));
        }
        if (offset % element_bytes != 0) {
            fail(
                fmt::format("sequence {} starts at byte {} of the .bin, not a multiple of its {} "
                            "bytes a token: the index is damaged, make it again",
                            sequence, offset, element_bytes));
        }
        const std::int64_t sequence_bytes = tokens * element_bytes;
        if (offset > bin_bytes || sequence_bytes > bin_bytes - offset) {
            throw DataError(fmt::format(
                "{}: has {} bytes, but its index places sequence {} at bytes {} to {}: the file is "
                "truncated or belongs to another .idx; copy or make it again",
                bin_path, bin_bytes, sequence, offset,
                static_cast<std::uint64_t>(offset) + static_cast<std::uint64_t>(sequence_bytes)));
        }
        is_contiguous_ = is_contiguous_ && offset == expected_offset;
        expected_offset = offset + sequence_bytes;
        used_bytes = std::max(used_bytes, expected_offset);
    }
    unused_bytes_ = bin_bytes - used_bytes;
    if (!is_contiguous_) {
        check_overlap();
    }
}

// Tokens that belong to two documents would be trained twice, or held out and trained.
void MegatronIndex::check_overlap() const {
    std::vector<std::int64_t> order;
    for (std::int64_t sequence = 0; sequence < num_sequences_; ++sequence) {
        if (sequence_tokens(sequence) > 0) {
            order.push_back(sequence);
        }
    }
    std::sort(order.begin(), order.end(), [this](std::int64_t a, std::int64_t b) {
        return sequence_offset_bytes(a) < sequence_offset_bytes(b);
    });
    for (std::size_t place = 1; place < order.size(); ++place) {
        const std::int64_t before = order[place - 1];
        const std::int64_t end =
            sequence_offset_bytes(before) + sequence_tokens(before) * size_bytes(token_type_);
        if (sequence_offset_bytes(order[place]) < end) {
            fail(
                fmt::format("sequences {} and {} overlap in the .bin (byte {} is in both): the "
                            "index is damaged, make it again",
                            before, order[place], sequence_offset_bytes(order[place])));
        }
    }
}

std::int64_t MegatronIndex::sequence_tokens(std::int64_t sequence) const {
    return load<std::int32_t>(file_.bytes(), kHeaderBytes + 4 * sequence);
}

std::int64_t MegatronIndex::sequence_offset_bytes(std::int64_t sequence) const {
    return load<std::int64_t>(file_.bytes(), kHeaderBytes + 4 * num_sequences_ + 8 * sequence);
}

std::int64_t MegatronIndex::document_begin(std::int64_t document) const {
    return load<std::int64_t>(file_.bytes(), kHeaderBytes + 12 * num_sequences_ + 8 * document);
}

}  // namespace dcp::data
