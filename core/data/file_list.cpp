#include "core/data/file_list.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_set>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/data/hints.hpp"

namespace dcp::data {
namespace {

namespace fs = std::filesystem;

class Collector {
public:
    void add_input(const std::string& input) {
        std::error_code error;
        const fs::file_status status = fs::status(input, error);
        if (!fs::exists(status)) {
            throw DataError(
                fmt::format("{}: {}; {}", input, error.message(), missing_path_hint(input, false)));
        }
        if (fs::is_directory(status)) {
            add_folder(input);
        } else if (fs::is_regular_file(status)) {
            take(input, fs::canonical(input));
        } else {
            throw DataError(
                fmt::format("{}: is a device, pipe or socket; name a file or a folder", input));
        }
    }

    FileList finish() { return std::move(list_); }

private:
    void add_folder(const std::string& folder) {
        std::vector<std::string> files;
        std::vector<std::string> links;
        try {
            for (const auto& entry : fs::recursive_directory_iterator(folder)) {
                if (entry.is_symlink()) {
                    add_link(entry, links);
                } else if (entry.is_regular_file()) {
                    files.push_back(entry.path().string());
                } else if (!entry.is_directory()) {
                    ++list_.not_regular;
                }
            }
        } catch (const fs::filesystem_error& error) {
            throw DataError(fmt::format("{}: cannot read this folder: {}", error.path1().string(),
                                        error.code().message()));
        }
        // The files themselves come before the links, so that a link never takes the place of the
        // file it leads to; then all of them are put in order.
        const std::size_t begin = list_.paths.size();
        const fs::path real_folder = fs::canonical(folder);
        for (const std::string& path : files) {
            take(path, real_folder / fs::path(path).lexically_relative(folder));
        }
        std::sort(links.begin(), links.end());
        for (const std::string& path : links) {
            take(path, fs::canonical(path));
        }
        std::sort(list_.paths.begin() + static_cast<std::ptrdiff_t>(begin), list_.paths.end());
    }

    void add_link(const fs::directory_entry& entry, std::vector<std::string>& links) {
        std::error_code error;
        const fs::file_status target = fs::status(entry.path(), error);
        if (fs::is_regular_file(target)) {
            links.push_back(entry.path().string());
        } else {
            ++(fs::is_directory(target) ? list_.folder_links : list_.not_regular);
        }
    }

    void take(const std::string& path, const fs::path& real_path) {
        if (!taken_.insert(real_path.lexically_normal().string()).second) {
            ++list_.repeated;
            return;
        }
        list_.paths.push_back(path);
        std::error_code error;
        const auto bytes = fs::file_size(path, error);
        list_.total_bytes += error ? 0 : static_cast<std::int64_t>(bytes);
    }

    FileList list_;
    std::unordered_set<std::string> taken_;
};

}  // namespace

FileList list_files(const std::vector<std::string>& inputs) {
    Collector collector;
    for (const std::string& input : inputs) {
        collector.add_input(input);
    }
    return collector.finish();
}

}  // namespace dcp::data
