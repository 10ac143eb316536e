#include "core/data/dataset_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"

namespace dcp::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
// A sequence's length is an int32 in the index; a longer document gets several sequences.
constexpr std::int64_t kMaxSequenceTokens = std::int64_t{1} << 30;

[[noreturn]] void fail_io(const std::string& path, const char* operation) {
    throw IoError(
        fmt::format("{}: cannot {}: {}", path, operation, std::generic_category().message(errno)));
}

std::string folder_of(const std::string& prefix) {
    const fs::path parent = fs::path(prefix).parent_path();
    return parent.empty() ? "." : parent.string();
}

std::string with_folder(const std::string& prefix) {
    std::error_code error;
    fs::create_directories(folder_of(prefix), error);
    if (error) {
        throw IoError(
            fmt::format("{}: cannot make this folder: {}", folder_of(prefix), error.message()));
    }
    return prefix;
}

void rename_file(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) {
        fail_io(to, "put the finished file here");
    }
}

template <class T>
void write_array(OutputFile& file, std::span<const T> values) {
    file.write(std::as_bytes(values));
}

template <class T>
void write_number(OutputFile& file, T value) {
    write_array(file, std::span<const T>(&value, 1));
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) {
        fail("create");
    }
    // Another import may have renamed the file between our open and our lock; then the name leads
    // elsewhere, or nowhere, and the file in our hands is its finished dataset.
    struct stat ours {};
    struct stat named {};
    const bool is_locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
    const bool is_ours = is_locked && ::fstat(file_, &ours) == 0 &&
                         ::stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino;
    if (!is_ours) {
        ::close(std::exchange(file_, -1));
        throw IoError(fmt::format(
            "{}: another process is writing this dataset; wait for it or choose another --out",
            path));
    }
    if (::ftruncate(file_, 0) != 0) {
        fail("empty");
    }
    buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
    if (file_ >= 0) {
        ::close(file_);
    }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      buffer_(std::move(other.buffer_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    std::swap(buffer_, other.buffer_);
    return *this;
}

void OutputFile::fail(const char* operation) const {
    fail_io(path_, operation);
}

void OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const std::size_t count = std::min(bytes.size(), kBufferBytes - buffer_.size());
        buffer_.insert(buffer_.end(), bytes.begin(),
                       bytes.begin() + static_cast<std::ptrdiff_t>(count));
        bytes = bytes.subspan(count);
        if (buffer_.size() == kBufferBytes) {
            flush();
        }
    }
}

void OutputFile::flush() {
    std::size_t written = 0;
    while (written < buffer_.size()) {
        const ssize_t put = ::write(file_, buffer_.data() + written, buffer_.size() - written);
        if (put >= 0) {
            written += static_cast<std::size_t>(put);
        } else if (errno != EINTR) {
            fail("write");
        }
    }
    buffer_.clear();
}

void OutputFile::finish() {
    flush();
    if (::fsync(file_) != 0) {
        fail("write to the disk");
    }
}

void OutputFile::discard() {
    if (file_ >= 0) {
        ::unlink(path_.c_str());
        ::close(std::exchange(file_, -1));
    }
}

DatasetWriter::DatasetWriter(const std::string& prefix)
    : prefix_(with_folder(prefix)), bin_(prefix + ".bin.partial") {}

DatasetWriter::~DatasetWriter() {
    if (!is_committed_) {
        bin_.discard();
        idx_.discard();
    }
}

void DatasetWriter::append(std::span<const std::uint16_t> tokens) {
    write_array(bin_, tokens);
    num_tokens_ += static_cast<std::int64_t>(tokens.size());
    open_tokens_ += static_cast<std::int64_t>(tokens.size());
    while (open_tokens_ > kMaxSequenceTokens) {
        sequence_tokens_.push_back(static_cast<std::int32_t>(kMaxSequenceTokens));
        open_tokens_ -= kMaxSequenceTokens;
    }
}

void DatasetWriter::end_document() {
    sequence_tokens_.push_back(static_cast<std::int32_t>(std::exchange(open_tokens_, 0)));
    document_begin_.push_back(static_cast<std::int64_t>(sequence_tokens_.size()));
}

void DatasetWriter::write_index() {
    constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
    constexpr std::uint8_t kUInt16Code = 8;
    idx_ = OutputFile(prefix_ + ".idx.partial");
    write_array(idx_, std::span(kMagic));
    write_number(idx_, std::uint64_t{1});
    write_number(idx_, kUInt16Code);
    write_number(idx_, static_cast<std::uint64_t>(sequence_tokens_.size()));
    write_number(idx_, static_cast<std::uint64_t>(document_begin_.size()));
    write_array(idx_, std::span<const std::int32_t>(sequence_tokens_));
    std::int64_t offset_bytes = 0;
    for (const std::int32_t tokens : sequence_tokens_) {
        write_number(idx_, offset_bytes);
        offset_bytes += std::int64_t{tokens} * 2;
    }
    write_array(idx_, std::span<const std::int64_t>(document_begin_));
}

void DatasetWriter::commit() {
    write_index();
    bin_.finish();
    idx_.finish();
    const std::string index = prefix_ + ".idx";
    if (::unlink(index.c_str()) != 0 && errno != ENOENT) {
        fail_io(index, "replace");
    }
    sync_folder(folder_of(prefix_));
    rename_file(bin_.path(), prefix_ + ".bin");
    rename_file(idx_.path(), index);
    is_committed_ = true;
    sync_folder(folder_of(prefix_));
}

}  // namespace dcp::data
