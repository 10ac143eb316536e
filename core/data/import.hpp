// `dcp data import`: files become documents of byte tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dcp::data {

inline constexpr std::uint16_t kEndOfDocument = 256;
inline constexpr std::int64_t kByteVocab = 257;  // bytes and the end of a document

struct ImportProgress {
    std::int64_t num_files = 0;
    std::int64_t files_done = 0;
    std::int64_t file_bytes = 0;  // of all files, as they lie on disk
    std::int64_t file_bytes_done = 0;
    std::int64_t num_tokens = 0;  // written
};

struct ImportReport {
    std::int64_t num_documents = 0;
    std::int64_t num_tokens = 0;
    std::int64_t file_bytes = 0;  // read
    // Left out:
    std::vector<std::string> empty_files;
    std::int64_t repeated = 0;      // links to files that are in, files named twice
    std::int64_t folder_links = 0;  // links to folders, not followed
    std::int64_t not_regular = 0;   // devices, pipes, sockets, broken links
};

// Every file (list_files; .gz decompressed) becomes one document of `prefix`: its bytes, then
// kEndOfDocument. A file without content is no document; it is listed in the report. Memory stays
// bounded: buffers, the list of paths and 12 bytes a document. The dataset appears at the end and
// whole, in place of one that was there (dataset_writer.hpp). `on_progress` is called often.
// DataError: an input that cannot be read, an output among the inputs, nothing to import.
// IoError: the output cannot be written.
ImportReport import_files(const std::string& prefix,
                          const std::vector<std::string>& inputs,
                          const std::function<void(const ImportProgress&)>& on_progress);

}  // namespace dcp::data
