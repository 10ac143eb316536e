// Writes a Megatron-style indexed dataset of uint16 tokens that exists completely or not at all.
//
// Everything goes to PREFIX.bin.partial and PREFIX.idx.partial, which no reader takes for a
// dataset. commit() makes them durable, takes an older PREFIX.idx away, renames .bin and last .idx:
// a process that is killed at any point leaves the old dataset, none, or the new one, never a mix.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dcp::data {

// A file that is written once from start to end through a buffer. Every failure is an IoError that
// names the file and the reason (a full disk, mostly).
class OutputFile {
public:
    OutputFile() = default;
    explicit OutputFile(const std::string& path);  // emptied; refused while another process has it
    ~OutputFile();
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(std::span<const std::byte> bytes);
    void finish();   // everything is on the disk afterwards; the file stays open and locked
    void discard();  // removes it
    const std::string& path() const { return path_; }

private:
    void flush();
    [[noreturn]] void fail(const char* operation) const;

    std::string path_;
    int file_ = -1;
    std::vector<std::byte> buffer_;
};

class DatasetWriter {
public:
    explicit DatasetWriter(const std::string& prefix);  // its folder is made if need be
    ~DatasetWriter();                                   // without commit() nothing remains
    DatasetWriter(const DatasetWriter&) = delete;
    DatasetWriter& operator=(const DatasetWriter&) = delete;

    void append(std::span<const std::uint16_t> tokens);  // to the document at hand
    void end_document();
    void commit();

    std::int64_t num_documents() const {
        return static_cast<std::int64_t>(document_begin_.size()) - 1;
    }
    std::int64_t num_tokens() const { return num_tokens_; }

private:
    void end_sequence();
    void write_index();

    std::string prefix_;
    OutputFile bin_;
    OutputFile idx_;
    std::vector<std::int32_t> sequence_tokens_;
    std::vector<std::int64_t> document_begin_{0};  // first sequence of each document
    std::int64_t open_tokens_ = 0;                 // of the sequence at hand
    std::int64_t num_tokens_ = 0;
    bool is_committed_ = false;
};

}  // namespace dcp::data
