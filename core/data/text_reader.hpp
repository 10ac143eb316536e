// Streams the bytes of a file; gzip data is decompressed on the way. What is gzip is decided by its
// first bytes; a name ending in .gz only makes it an error when they are others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dcp::data {

class TextReader {
public:
    explicit TextReader(const std::string& path);  // DataError: not readable, not what it claims
    ~TextReader();
    TextReader(const TextReader&) = delete;
    TextReader& operator=(const TextReader&) = delete;

    // The next bytes of the text, valid until the next call; none at its end. DataError: gzip data
    // that is broken, cut short or followed by something else.
    std::span<const unsigned char> read();

    std::int64_t file_bytes_read() const { return file_bytes_read_; }

private:
    struct Inflater;

    std::span<const unsigned char> read_plain();
    std::span<const unsigned char> read_gzip();
    bool start_next_member();
    void fill();  // input_ from the file; empty at its end
    [[noreturn]] void fail(const std::string& what) const;

    std::string path_;
    int file_;
    std::int64_t file_bytes_read_ = 0;
    std::vector<unsigned char> buffer_;     // of the file
    std::span<const unsigned char> input_;  // of buffer_, not used yet
    std::unique_ptr<Inflater> inflater_;    // gzip only
};

}  // namespace dcp::data
