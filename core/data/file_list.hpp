// The files that an import reads, in order: arguments as given, the files of a folder sorted by the
// bytes of their paths, so the same tree gives the same dataset on every machine.
//
// A file is taken once. A symbolic link to a file that is taken anyway, or a file named twice, is
// counted and left out: a document that is seen twice an epoch is nobody's intention. Links to
// folders are not followed, so there are no loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dcp::data {

struct FileList {
    std::vector<std::string> paths;
    std::int64_t total_bytes = 0;   // as they lie on disk
    std::int64_t repeated = 0;      // links to files that are in `paths`, files named twice
    std::int64_t folder_links = 0;  // not followed
    std::int64_t not_regular = 0;   // devices, pipes, sockets, broken links
};

// DataError: a path that does not exist, a folder that cannot be read.
FileList list_files(const std::vector<std::string>& inputs);

}  // namespace dcp::data
