// A file mapped for reading. Nothing is read before it is touched, so a file of any size opens
// at once and only the pages in use occupy memory, shared by all processes of a node.
//
// The mapping is of the file as it was when opened: renaming a new file over it changes nothing
// here, cutting it short while mapped ends the process (SIGBUS), as for every reader of that kind.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dcp {

class MappedFile {
public:
    MappedFile() = default;
    explicit MappedFile(const std::string& path);  // DataError: missing, a folder, not readable
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return bytes_; }
    const std::string& path() const { return path_; }

private:
    std::string path_;
    std::span<const std::byte> bytes_;
};

std::string_view as_text(std::span<const std::byte> bytes);

// A git-lfs pointer stands where `git lfs pull` has not put the file yet: a text of some 130 bytes.
bool is_git_lfs_pointer(std::span<const std::byte> bytes);

// Mostly printable text rather than tokens or an index; for messages only.
bool looks_like_text(std::span<const std::byte> bytes);

}  // namespace dcp
