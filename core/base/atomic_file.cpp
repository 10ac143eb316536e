#include "core/base/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/base/errors.hpp"

namespace dcp {

namespace {

constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // Linux takes less than 2 GiB a call

void require_replaceable(const std::string& who, const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored) &&
        !std::filesystem::is_regular_file(path, ignored)) {
        throw ConfigError(fmt::format(
            "{}: not a regular file, so it cannot be replaced by one: name another file", who));
    }
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.partial.{}", path_, ::getpid())) {
    require_replaceable(path_, path_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
        fail("create");
    }
}

AtomicFile::~AtomicFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
        ::unlink(temporary_.c_str());
    }
}

void AtomicFile::fail(const char* operation) const {
    const int reason = errno;
    throw IoError(fmt::format("{}: cannot {}: {}", path_, operation,
                              std::generic_category().message(reason)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written =
            ::write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestWrite));
        if (written < 0 && errno != EINTR) {
            fail("write");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
}

void AtomicFile::commit() {
    if (::fsync(descriptor_) != 0 && errno != EINVAL) {
        fail("write to the disk");
    }
    const int closed = ::close(std::exchange(descriptor_, -1));
    if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const int reason = errno;
        ::unlink(temporary_.c_str());
        errno = reason;
        fail("finish");
    }
    sync_folder(std::filesystem::path(path_).parent_path().string());
}

void write_file_atomically(const std::string& path, std::string_view text) {
    AtomicFile file(path);
    file.write(text);
    file.commit();
}

void require_output_place(std::string_view option, const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
        throw ConfigError(fmt::format("{} {}: there is no folder {}: make it first", option, path,
                                      folder.string()));
    }
    require_replaceable(fmt::format("{} {}", option, path), path);
}

void require_different_files(std::span<const NamedFile> files) {
    std::error_code error;
    std::map<std::filesystem::path, std::string_view> seen;
    for (const NamedFile& file : files) {
        if (file.path.empty()) {
            continue;
        }
        // Without links; what is not there yet stays as it is written.
        const std::filesystem::path whole = std::filesystem::absolute(file.path);
        const std::filesystem::path real = std::filesystem::weakly_canonical(whole, error);
        const auto [first, is_new] = seen.emplace(error ? whole : real, file.option);
        if (!is_new) {
            throw ConfigError(
                fmt::format("{} and {} name one file, {}: the second would replace "
                            "the first; name another",
                            first->second, file.option, file.path));
        }
    }
}

void sync_folder(const std::string& folder) {
    const int descriptor =
        ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        ::fsync(descriptor);
        ::close(descriptor);
    }
}

}  // namespace dcp
