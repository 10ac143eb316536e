#include "core/base/mapped_file.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/errors.hpp"

namespace dcp {
namespace {

[[noreturn]] void fail(const std::string& path, const char* operation) {
    throw DataError(
        fmt::format("{}: cannot {}: {}", path, operation, std::generic_category().message(errno)));
}

// Closes when the scope ends; a mapping outlives its descriptor.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) {
            ::close(number_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return number_; }

private:
    int number_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
    // Without O_NONBLOCK the open of a named pipe would wait for a writer before we can refuse it.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (file.get() < 0) {
        fail(path, "open");
    }
    if (::fstat(file.get(), &status) != 0) {
        fail(path, "read its size");
    }
    if (!S_ISREG(status.st_mode)) {
        throw DataError(fmt::format("{}: is {}, not a file", path,
                                    S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe"));
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size == 0) {
        return;
    }
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (start == MAP_FAILED) {
        fail(path, "map into memory");
    }
    bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) {
        // munmap wants a pointer to what may change; the pages themselves are read-only.
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_git_lfs_pointer(std::span<const std::byte> bytes) {
    return as_text(bytes).starts_with("version https://git-lfs");
}

bool looks_like_text(std::span<const std::byte> bytes) {
    const auto sample = as_text(bytes.first(std::min<std::size_t>(bytes.size(), 4096)));
    const auto is_control = [](char letter) {
        const auto code = static_cast<unsigned char>(letter);
        return (code < 32 && code != '\n' && code != '\r' && code != '\t' && code != '\f') ||
               code == 127;
    };
    return !sample.empty() && std::none_of(sample.begin(), sample.end(), is_control);
}

}  // namespace dcp
