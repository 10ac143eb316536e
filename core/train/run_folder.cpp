#include "core/train/run_folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"

namespace dcp::train {

namespace fs = std::filesystem;

namespace {

constexpr std::array kRunFiles{"config.yaml", "metrics.jsonl", "samples.jsonl", "weights"};
constexpr std::array kNumberedRunFiles{"events.out.tfevents.", "trace-"};  // how they begin

[[noreturn]] void fail(std::string_view action, std::string_view path) {
    throw IoError(
        fmt::format("cannot {} '{}': {}", action, path, std::generic_category().message(errno)));
}

[[noreturn]] void fail_unusable(const std::string& path, std::error_code reason) {
    const std::string message =
        fmt::format("cannot write into run.folder '{}': {}", path, reason.message());
    if (reason == std::errc::no_space_on_device || reason == std::errc::io_error) {
        throw IoError(message);
    }
    throw ConfigError(message + ": choose another folder");
}

void write_all(int descriptor, std::string_view text, std::string_view path) {
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            fail("write", path);
        }
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

// What an earlier run left, by name.
std::vector<std::string> files_of_earlier_run(const fs::path& folder) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        const auto begins = [&](const char* text) { return name.rfind(text, 0) == 0; };
        if (std::find(kRunFiles.begin(), kRunFiles.end(), name) != kRunFiles.end() ||
            std::any_of(kNumberedRunFiles.begin(), kNumberedRunFiles.end(), begins)) {
            names.push_back(name);
        }
    }
    return names;
}

// Moves what an earlier run left into the first unused FOLDER/earlier-N; returns that folder, or
// nothing when there was nothing.
std::string move_earlier_run(const fs::path& folder) {
    fs::path target;
    for (const std::string& name : files_of_earlier_run(folder)) {
        for (int number = 1; target.empty(); ++number) {
            const fs::path candidate = folder / fmt::format("earlier-{}", number);
            if (fs::create_directory(candidate)) {
                target = candidate;
            }
        }
        fs::rename(folder / name, target / name);
    }
    return target.string();
}

}  // namespace

GrowingFile::GrowingFile(std::string path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) {
        fail("open", path_);
    }
}

GrowingFile::~GrowingFile() {
    ::close(descriptor_);
}

void GrowingFile::append(std::string_view record) {
    const off_t whole_records = ::lseek(descriptor_, 0, SEEK_END);
    try {
        write_all(descriptor_, record, path_);
    } catch (const IoError&) {
        // Best effort: a device cannot be cut, and the first error is the one to tell.
        [[maybe_unused]] const int cut =
            ::ftruncate(descriptor_, std::max<off_t>(whole_records, 0));
        throw;
    }
}

void LineFile::append(std::string_view line) {
    file_.append(fmt::format("{}\n", line));
}

RunFolder::RunFolder(const std::string& path) : path_(path) {
    try {
        fs::create_directories(path_);
        if (::access(path_.c_str(), W_OK | X_OK) == 0) {
            lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        if (lock_ < 0) {
            fail_unusable(path_, std::error_code(errno, std::generic_category()));
        }
        if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
            throw ConfigError(
                fmt::format("another process is training in run.folder '{}': choose another folder "
                            "or wait for it",
                            path_));
        }
        earlier_ = move_earlier_run(path_);
    } catch (const fs::filesystem_error& error) {
        fail_unusable(path_, error.code());
    }
}

RunFolder::~RunFolder() {
    if (lock_ >= 0) {
        ::close(lock_);
    }
}

std::string RunFolder::file(std::string_view name) const {
    return (fs::path(path_) / name).string();
}

void RunFolder::write(std::string_view name, std::string_view text) const {
    write_file_atomically(file(name), text);
}

}  // namespace dcp::train
