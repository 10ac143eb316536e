#include "core/data/text_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/errors.hpp"
#include "core/base/mapped_file.hpp"

namespace dcp::data {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

bool is_gzip(std::span<const unsigned char> bytes) {
    return bytes.size() >= 3 && bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8;
}

}  // namespace

struct TextReader::Inflater {
    Inflater() : text(kBufferBytes) {
        constexpr int kGzipOnly = 16 + MAX_WBITS;
        if (::inflateInit2(&stream, kGzipOnly) != Z_OK) {
            throw IoError("zlib cannot be started: out of memory");
        }
    }
    ~Inflater() { ::inflateEnd(&stream); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream stream{};
    std::vector<unsigned char> text;
    bool is_inside_member = true;
};

void TextReader::fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}", path_, what));
}

TextReader::TextReader(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), buffer_(kBufferBytes) {
    if (file_ < 0) {
        fail(fmt::format("cannot open: {}", std::generic_category().message(errno)));
    }
    try {
        fill();
        if (is_git_lfs_pointer(std::as_bytes(input_))) {
            fail("is a git-lfs pointer, not the file itself; fetch it with `git lfs pull`");
        }
        if (is_gzip(input_)) {
            inflater_ = std::make_unique<Inflater>();
        } else if (path.ends_with(".gz") && !input_.empty()) {
            fail("has a name ending in .gz but is not gzip data; rename it or download it again");
        }
    } catch (...) {
        ::close(file_);
        throw;
    }
}

TextReader::~TextReader() {
    ::close(file_);
}

void TextReader::fill() {
    // Short reads are put together, so that the first bytes are there to be looked at.
    std::size_t filled = 0;
    while (filled < buffer_.size()) {
        const ssize_t got = ::read(file_, buffer_.data() + filled, buffer_.size() - filled);
        if (got == 0) {
            break;
        }
        if (got > 0) {
            filled += static_cast<std::size_t>(got);
        } else if (errno != EINTR) {
            throw IoError(
                fmt::format("{}: cannot read: {}", path_, std::generic_category().message(errno)));
        }
    }
    input_ = std::span(buffer_).first(filled);
    file_bytes_read_ += static_cast<std::int64_t>(filled);
}

std::span<const unsigned char> TextReader::read() {
    return inflater_ ? read_gzip() : read_plain();
}

std::span<const unsigned char> TextReader::read_plain() {
    if (input_.empty()) {
        fill();
    }
    return std::exchange(input_, {});
}

std::span<const unsigned char> TextReader::read_gzip() {
    z_stream& stream = inflater_->stream;
    auto& text = inflater_->text;
    stream.next_out = text.data();
    stream.avail_out = static_cast<uInt>(text.size());
    while (stream.avail_out == text.size()) {
        if (!inflater_->is_inside_member && !start_next_member()) {
            return {};
        }
        if (input_.empty()) {
            fill();
        }
        if (input_.empty()) {
            fail("is truncated gzip data; download or copy it again");
        }
        stream.next_in = const_cast<unsigned char*>(input_.data());  // zlib only reads it
        stream.avail_in = static_cast<uInt>(input_.size());
        const int status = ::inflate(&stream, Z_NO_FLUSH);
        input_ = input_.last(stream.avail_in);
        if (status == Z_STREAM_END) {
            inflater_->is_inside_member = false;
        } else if (status != Z_OK) {
            fail(fmt::format("is broken gzip data ({}) before byte {}; download or copy it again",
                             stream.msg != nullptr ? stream.msg : ::zError(status),
                             file_bytes_read_ - static_cast<std::int64_t>(input_.size())));
        }
    }
    return std::span(text).first(text.size() - stream.avail_out);
}

// A gzip file is a chain of members, possibly padded with zeros (tapes and block devices).
bool TextReader::start_next_member() {
    if (input_.size() < 3) {
        const std::vector<unsigned char> rest(input_.begin(), input_.end());
        fill();
        if (!rest.empty()) {
            buffer_.insert(buffer_.begin(), rest.begin(), rest.end());
            input_ = std::span(buffer_).first(rest.size() + input_.size());
        }
    }
    if (is_gzip(input_)) {
        ::inflateReset(&inflater_->stream);
        inflater_->is_inside_member = true;
        return true;
    }
    while (!input_.empty()) {
        if (std::any_of(input_.begin(), input_.end(), [](unsigned char c) { return c != 0; })) {
            fail("has other data behind its gzip data; download or copy it again");
        }
        fill();
    }
    return false;
}

}  // namespace dcp::data
