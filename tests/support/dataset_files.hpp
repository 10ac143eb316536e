// Datasets for tests, written byte by byte from the format descriptions and not by the code under
// test. Every field can be given a wrong value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "core/base/rng.hpp"

namespace dcp::test {

// A folder of its own, removed at the end.
class DatasetFolder {
public:
    DatasetFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "dcp-test-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~DatasetFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    DatasetFolder(const DatasetFolder&) = delete;
    DatasetFolder& operator=(const DatasetFolder&) = delete;

    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

inline void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The low `num_bytes` bytes of a two's complement number, lowest first.
inline void append_number(std::string& bytes, std::int64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) {
        bytes += static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xff);
    }
}

inline std::string number_bytes(const std::vector<std::int64_t>& values, int width) {
    std::string bytes;
    for (const std::int64_t value : values) {
        append_number(bytes, value, width);
    }
    return bytes;
}

inline int type_code_bytes(int code) {
    switch (code) {
        case 1:
        case 2:
            return 1;
        case 3:
        case 8:
            return 2;
        case 4:
        case 7:
            return 4;
        default:
            return 8;
    }
}

// A Megatron-style indexed dataset; what is left open follows from `sequences`.
struct MegatronFiles {
    int type_code = 8;
    std::vector<std::vector<std::int64_t>> sequences;
    std::vector<std::int64_t> documents;  // first sequence of each, then their number
    std::string magic{"MMIDIDX\0\0", 9};
    std::int64_t version = 1;
    std::optional<std::int64_t> sequence_count;
    std::optional<std::int64_t> document_count;
    std::optional<std::vector<std::int64_t>> lengths;
    std::optional<std::vector<std::int64_t>> offsets;
    bool modes = false;

    std::string bin() const {
        std::string bytes;
        for (const auto& tokens : sequences) {
            bytes += number_bytes(tokens, type_code_bytes(type_code));
        }
        return bytes;
    }

    std::string idx() const {
        std::vector<std::int64_t> own_lengths;
        std::vector<std::int64_t> own_offsets;
        std::int64_t offset = 0;
        for (const auto& tokens : sequences) {
            const auto length = static_cast<std::int64_t>(tokens.size());
            own_lengths.push_back(length);
            own_offsets.push_back(offset);
            offset += length * type_code_bytes(type_code);
        }
        std::string bytes = magic;
        append_number(bytes, version, 8);
        append_number(bytes, type_code, 1);
        append_number(bytes, sequence_count.value_or(std::ssize(sequences)), 8);
        append_number(bytes, document_count.value_or(std::ssize(documents)), 8);
        bytes += number_bytes(lengths.value_or(own_lengths), 4);
        bytes += number_bytes(offsets.value_or(own_offsets), 8);
        bytes += number_bytes(documents, 8);
        return modes ? bytes + std::string(sequences.size(), '\0') : bytes;
    }

    void write(const std::string& prefix) const {
        write_file(prefix + ".bin", bin());
        write_file(prefix + ".idx", idx());
    }
};

// One document a sequence.
inline MegatronFiles documents_of(std::vector<std::vector<std::int64_t>> sequences, int code = 8) {
    MegatronFiles files;
    files.type_code = code;
    files.sequences = std::move(sequences);
    for (std::int64_t i = 0; i <= std::ssize(files.sequences); ++i) {
        files.documents.push_back(i);
    }
    return files;
}

// Documents of these many tokens below `vocab`, drawn at random; always the same.
inline std::vector<std::vector<std::int64_t>> random_documents(
    const std::vector<std::int64_t>& lengths, std::int64_t vocab) {
    const CounterRng rng(1, "documents", 0);
    std::uint64_t element = 0;
    std::vector<std::vector<std::int64_t>> documents;
    for (const std::int64_t length : lengths) {
        documents.emplace_back();
        for (std::int64_t i = 0; i < length; ++i) {
            documents.back().push_back(
                static_cast<std::int64_t>(rng.word(element++) % static_cast<std::uint64_t>(vocab)));
        }
    }
    return documents;
}

// Documents of these many tokens, which count up through the whole dataset.
inline MegatronFiles counting_documents(const std::vector<std::int64_t>& lengths, int code = 4) {
    std::vector<std::vector<std::int64_t>> sequences;
    std::int64_t next = 0;
    for (const std::int64_t length : lengths) {
        sequences.emplace_back();
        for (std::int64_t i = 0; i < length; ++i) {
            sequences.back().push_back(next++);
        }
    }
    return documents_of(std::move(sequences), code);
}

struct LlmcFile {
    std::int64_t magic = 20240520;
    std::int64_t version = 1;
    std::vector<std::int64_t> tokens;
    std::optional<std::int64_t> count = std::nullopt;
    int width = 2;

    std::string bytes() const {
        std::string out = number_bytes({magic, version, count.value_or(std::ssize(tokens))}, 4);
        out.resize(1024, '\0');
        return out + number_bytes(tokens, width);
    }
};

}  // namespace dcp::test
