#include "core/data/path_hints.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dcp::data {

namespace fs = std::filesystem;

int edit_distance(std::string_view a, std::string_view b) {
    // Row i holds the distances of a's first i letters to every beginning of b.
    std::vector<int> before_last(b.size() + 1);
    std::vector<int> last(b.size() + 1);
    std::vector<int> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) {
        row[j] = static_cast<int>(j);
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before_last.swap(last);
        last.swap(row);
        row[0] = static_cast<int>(i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
    }
    return row[b.size()];
}

std::vector<std::string> nearest_names(std::string_view wanted, std::vector<std::string> names) {
    constexpr std::size_t kMostNames = 3;
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::vector<std::pair<int, std::string>> ranked;
    for (auto& known : names) {
        const int distance = edit_distance(wanted, known);
        if (2 * distance <= static_cast<int>(std::max(wanted.size(), known.size()))) {
            ranked.emplace_back(distance, std::move(known));
        }
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::string> nearest;
    for (std::size_t i = 0; i < std::min(kMostNames, ranked.size()); ++i) {
        nearest.push_back(ranked[i].second);
    }
    return nearest;
}

std::string missing_path_hint(const std::string& path, bool datasets) {
    const fs::path parent = fs::path(path).parent_path();
    const fs::path folder = parent.empty() ? fs::path(".") : parent;
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
        return fmt::format("there is no folder {}", folder.string());
    }
    std::vector<std::string> names;
    for (auto entry = fs::directory_iterator(folder, error);
         !error && entry != fs::directory_iterator(); entry.increment(error)) {
        const fs::path name = entry->path().filename();
        if (!datasets) {
            names.push_back(name.string());
        } else if (name.extension() == ".idx" || name.extension() == ".bin") {
            names.push_back(name.stem().string());
        }
    }
    auto nearest = nearest_names(fs::path(path).filename().string(), names);
    for (auto& known : nearest) {
        known = (parent / known).string();
    }
    if (!nearest.empty()) {
        return fmt::format("nearest existing: {}", fmt::join(nearest, ", "));
    }
    if (datasets && names.empty()) {
        return fmt::format("folder {} has no dataset", folder.string());
    }
    return fmt::format("nothing in folder {} has a similar name", folder.string());
}

}  // namespace dcp::data
