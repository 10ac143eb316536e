// A file that exists whole or not at all: it is written under a temporary name beside its place and
// renamed when it is complete and on the disk. Without commit() it leaves nothing behind.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dcp {

class AtomicFile {
public:
    // IoError when it cannot be created; ConfigError for a folder, a device or a pipe, which a
    // rename would destroy.
    explicit AtomicFile(std::string path);
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    AtomicFile(AtomicFile&&) = delete;
    AtomicFile& operator=(AtomicFile&&) = delete;

    // IoError naming the file and the reason: a full disk, a quota, a lost mount.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    void commit();

private:
    [[noreturn]] void fail(const char* operation) const;

    std::string path_;
    std::string temporary_;
    int descriptor_ = -1;
};

// The whole of a small file.
void write_file_atomically(const std::string& path, std::string_view text);

// ConfigError when what `option` names cannot become such a file, for want of a folder or because
// it is one: known before the work whose result it is to hold. An empty path is no file.
void require_output_place(std::string_view option, const std::string& path);

// ConfigError where two options name one file, of which the later would replace the earlier.
struct NamedFile {
    std::string_view option;
    std::string path;  // empty: no file
};
void require_different_files(std::span<const NamedFile> files);

// Makes the names in a folder survive a power cut; a file system that cannot do it is no error.
void sync_folder(const std::string& folder);

}  // namespace dcp
