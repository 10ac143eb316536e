#include "core/data/token_store.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/data/hints.hpp"

namespace dcp::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLlmcHeaderBytes = 1024;

bool exists(const std::string& path) {
    std::error_code error;
    return fs::exists(path, error);
}

std::int32_t header_word(std::span<const std::byte> bytes, int index) {
    std::int32_t word = 0;
    if (bytes.size() >= 4 * (static_cast<std::size_t>(index) + 1)) {
        std::memcpy(&word, bytes.data() + 4 * static_cast<std::size_t>(index), sizeof word);
    }
    return word;
}

[[noreturn]] void fail_folder(const std::string& path) {
    throw DataError(fmt::format(
        "{}: is a folder, not a dataset; name the dataset's prefix (PREFIX of PREFIX.bin and "
        "PREFIX.idx), or make one of its text files with `dcp data import --out PREFIX {}`",
        path, path));
}

template <class T>
TokenRange range_of(const std::byte* start, std::int64_t count) {
    const T* tokens = reinterpret_cast<const T*>(start);
    T min = std::numeric_limits<T>::max();
    T max = std::numeric_limits<T>::lowest();
    for (std::int64_t i = 0; i < count; ++i) {
        min = std::min(min, tokens[i]);
        max = std::max(max, tokens[i]);
    }
    return {static_cast<std::int64_t>(min), static_cast<std::int64_t>(max)};
}

// Position of the first token outside [low, high], or `count`.
template <class T>
std::int64_t find_outside(const std::byte* start,
                          std::int64_t count,
                          std::int64_t low,
                          std::int64_t high) {
    const T* tokens = reinterpret_cast<const T*>(start);
    const auto is_outside = [=](T token) {
        return std::cmp_less(token, low) || std::cmp_greater(token, high);
    };
    return std::find_if(tokens, tokens + count, is_outside) - tokens;
}

TokenRange merge(TokenRange a, TokenRange b) {
    if (a.max < a.min) {
        return b;
    }
    return b.max < b.min ? a : TokenRange{std::min(a.min, b.min), std::max(a.max, b.max)};
}

}  // namespace

TokenStore::TokenStore(const std::string& path, std::int64_t vocab, std::string_view vocab_advice) {
    const bool ends_in_idx = path.ends_with(".idx");
    const bool ends_in_bin = path.ends_with(".bin");
    const std::string prefix = ends_in_idx || ends_in_bin ? path.substr(0, path.size() - 4) : path;
    std::error_code error;
    if (exists(prefix + ".idx")) {
        open_megatron(prefix);
    } else if (!ends_in_idx && exists(prefix + ".bin")) {
        open_llmc(MappedFile(prefix + ".bin"));
    } else if (fs::is_directory(path, error)) {
        fail_folder(path);
    } else if (!ends_in_idx && exists(path)) {
        open_llmc(MappedFile(path));
    } else {
        throw DataError(
            fmt::format("{}: no such dataset, neither {}.idx and {}.bin nor an llm.c "
                        "shard; {}",
                        path, prefix, prefix, missing_path_hint(prefix, true)));
    }
    if (vocab > 0) {
        check_vocab(vocab, vocab_advice);
    }
}

void TokenStore::open_megatron(const std::string& prefix) {
    if (!exists(prefix + ".bin")) {
        throw DataError(
            fmt::format("{}.bin: no such file, though {}.idx is there; copy both, or "
                        "make the dataset again",
                        prefix, prefix));
    }
    name_ = prefix;
    kind_ = StoreKind::kMegatron;
    bin_ = MappedFile(prefix + ".bin");
    MappedFile idx(prefix + ".idx");
    if (is_git_lfs_pointer(bin_.bytes())) {
        throw DataError(
            fmt::format("{}: is a git-lfs pointer, not the file itself; fetch it with "
                        "`git lfs pull`",
                        bin_.path()));
    }
    index_ =
        MegatronIndex(std::move(idx), bin_.path(), static_cast<std::int64_t>(bin_.bytes().size()));
    token_type_ = index_.token_type();
    document_begin_.reserve(static_cast<std::size_t>(index_.num_documents()) + 1);
    document_begin_.push_back(0);
    std::int64_t tokens = 0;
    for (std::int64_t document = 0; document < index_.num_documents(); ++document) {
        for (std::int64_t sequence = index_.document_begin(document);
             sequence < index_.document_begin(document + 1); ++sequence) {
            tokens += index_.sequence_tokens(sequence);
        }
        document_begin_.push_back(tokens);
    }
    if (tokens == 0) {
        throw DataError(
            fmt::format("{}: has no tokens ({} documents); make the dataset again from "
                        "input that is not empty",
                        prefix, index_.num_documents()));
    }
}

void TokenStore::open_llmc(MappedFile file) {
    name_ = file.path();
    kind_ = StoreKind::kLlmc;
    bin_ = std::move(file);
    const auto bytes = bin_.bytes();
    const auto file_bytes = static_cast<std::int64_t>(bytes.size());
    const std::int32_t magic = header_word(bytes, 0);
    const bool is_llama = magic == kLlmcLlamaMagic;
    if (!is_llama && magic != kLlmcMagic) {
        throw DataError(fmt::format("{}: {}", name_, describe_non_dataset(bin_)));
    }
    if (file_bytes < kLlmcHeaderBytes) {
        throw DataError(
            fmt::format("{}: is truncated: {} bytes, the header of an llm.c shard alone "
                        "has {}; copy or make it again",
                        name_, file_bytes, kLlmcHeaderBytes));
    }
    token_type_ = is_llama ? TokenType::kUInt32 : TokenType::kUInt16;
    data_offset_bytes_ = kLlmcHeaderBytes;
    const std::int32_t version = header_word(bytes, 1);
    const std::int32_t expected_version = is_llama ? 7 : 1;
    if (version != expected_version) {
        throw DataError(
            fmt::format("{}: is an llm.c shard of version {}; dcp reads version {} of "
                        "magic {}, make it again with llm.c's dev/data scripts",
                        name_, version, expected_version, magic));
    }
    const std::int64_t tokens = header_word(bytes, 2);
    if (tokens <= 0) {
        throw DataError(
            fmt::format("{}: its header counts {} tokens; it was not written "
                        "completely, make it again",
                        name_, tokens));
    }
    const std::int64_t expected_bytes = kLlmcHeaderBytes + tokens * size_bytes(token_type_);
    if (file_bytes != expected_bytes) {
        throw DataError(
            fmt::format("{}: {}: {} bytes, but its header's {} {} tokens take {}; copy "
                        "or make it again",
                        name_, file_bytes < expected_bytes ? "is truncated" : "has a wrong size",
                        file_bytes, tokens, data::name(token_type_), expected_bytes));
    }
    document_begin_ = {0, tokens};
}

template <class Action>
void TokenStore::for_each_run(std::int64_t document,
                              std::int64_t first,
                              std::int64_t count,
                              Action&& action) const {
    const std::int64_t element_bytes = size_bytes(token_type_);
    const std::int64_t begin = document_begin_[static_cast<std::size_t>(document)];
    if (kind_ == StoreKind::kLlmc || index_.is_contiguous()) {
        action(data_offset_bytes_ + (begin + first) * element_bytes, count);
        return;
    }
    for (std::int64_t sequence = index_.document_begin(document); count > 0; ++sequence) {
        const std::int64_t tokens = index_.sequence_tokens(sequence);
        const std::int64_t here = std::min(count, tokens - first);
        if (here > 0) {
            action(index_.sequence_offset_bytes(sequence) + first * element_bytes, here);
            count -= here;
            first = 0;
        } else {
            first -= tokens;
        }
    }
}

std::int64_t TokenStore::document_tokens(std::int64_t document) const {
    const auto index = static_cast<std::size_t>(document);
    return document_begin_[index + 1] - document_begin_[index];
}

std::int64_t TokenStore::num_bytes() const {
    const std::int64_t index_bytes = kind_ == StoreKind::kMegatron ? index_.num_bytes() : 0;
    return static_cast<std::int64_t>(bin_.bytes().size()) + index_bytes;
}

std::string TokenStore::warning() const {
    const std::int64_t unused = kind_ == StoreKind::kMegatron ? index_.unused_bytes() : 0;
    return unused == 0 ? ""
                       : fmt::format(
                             "{}: its index does not cover the last {} of {} bytes, which "
                             "are not read; does the .idx belong to it?",
                             bin_.path(), unused, bin_.bytes().size());
}

void TokenStore::read(std::int64_t document,
                      std::int64_t first,
                      std::span<std::int32_t> out) const {
    const auto count = static_cast<std::int64_t>(out.size());
    if (first < 0 || first + count > document_tokens(document)) {
        throw ShapeError(fmt::format("{}: tokens {} to {} asked of document {}, which has {}",
                                     name_, first, first + count, document,
                                     document_tokens(document)));
    }
    std::int32_t* to = out.data();
    for_each_run(document, first, count, [&](std::int64_t offset, std::int64_t run) {
        const std::byte* start = bin_.bytes().data() + offset;
        with_token_type(token_type_, [&](auto type) {
            using T = decltype(type);
            if constexpr (sizeof(T) == 8 || std::is_same_v<T, std::uint32_t>) {
                constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
                const std::int64_t at = find_outside<T>(start, run, -kMax - 1, kMax);
                if (at < run) {
                    throw DataError(fmt::format(
                        "{}: token {} at position {} of document {} does not fit into 32 bits: the "
                        "file is damaged or holds no tokens",
                        bin_.path(), reinterpret_cast<const T*>(start)[at],
                        first + (to - out.data()) + at, document));
                }
            }
            const T* tokens = reinterpret_cast<const T*>(start);
            to = std::transform(tokens, tokens + run, to,
                                [](T token) { return static_cast<std::int32_t>(token); });
        });
    });
}

TokenRange TokenStore::document_range(std::int64_t document) const {
    TokenRange range;
    for_each_run(document, 0, document_tokens(document),
                 [&](std::int64_t offset, std::int64_t run) {
                     if (run > 0) {
                         const std::byte* start = bin_.bytes().data() + offset;
                         range = merge(range, with_token_type(token_type_, [&](auto type) {
                                           return range_of<decltype(type)>(start, run);
                                       }));
                     }
                 });
    return range;
}

TokenRange TokenStore::token_range() const {
    TokenRange range;
    for (std::int64_t document = 0; document < num_documents(); ++document) {
        range = merge(range, document_range(document));
    }
    return range;
}

void TokenStore::check_vocab(std::int64_t vocab, std::string_view advice) const {
    for (std::int64_t document = 0; document < num_documents(); ++document) {
        const TokenRange range = document_range(document);
        if (range.max < range.min || (range.min >= 0 && range.max < vocab)) {
            continue;
        }
        std::int64_t position = 0;
        for_each_run(
            document, 0, document_tokens(document), [&](std::int64_t offset, std::int64_t run) {
                with_token_type(token_type_, [&](auto type) {
                    using T = decltype(type);
                    const std::byte* start = bin_.bytes().data() + offset;
                    const std::int64_t at = find_outside<T>(start, run, 0, vocab - 1);
                    if (at < run) {
                        const T token = reinterpret_cast<const T*>(start)[at];
                        throw DataError(fmt::format(
                            "{}: token {} at position {} of document {} is outside the vocabulary "
                            "of {} (0 to {}); {}",
                            bin_.path(), token, position + at, document, vocab, vocab - 1,
                            std::cmp_less(token, 0)
                                ? std::string_view("token ids are not negative: the dataset was "
                                                   "made with a wrong "
                                                   "element type, make it again")
                                : advice));
                    }
                });
                position += run;
            });
    }
}

}  // namespace dcp::data
