#include "core/data/hints.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/data/token_store.hpp"

namespace dcp::data {

namespace fs = std::filesystem;

namespace {

std::int32_t first_word(std::span<const std::byte> bytes) {
    std::int32_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    return word;
}

// Whether PREFIX or PREFIX.bin can be given for a dataset: an index has its .bin, and a .bin
// without one is an llm.c shard.
bool is_dataset(const std::string& prefix) {
    std::error_code error;
    const std::string bin = prefix + ".bin";
    if (!fs::is_regular_file(bin, error)) {
        return false;
    }
    if (fs::exists(prefix + ".idx", error)) {
        return true;
    }
    std::ifstream file(bin, std::ios::binary);
    std::int32_t magic = 0;
    file.read(reinterpret_cast<char*>(&magic), sizeof magic);
    return file && (magic == kLlmcMagic || magic == kLlmcLlamaMagic);
}

}  // namespace

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
        } else if (name.extension() == ".bin" && is_dataset((folder / name.stem()).string())) {
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

std::string describe_non_dataset(const MappedFile& file) {
    const auto bytes = file.bytes();
    if (bytes.empty()) {
        return "is empty; a dataset was not written completely, make it again";
    }
    if (is_git_lfs_pointer(bytes)) {
        return "is a git-lfs pointer, not the file itself; fetch it with `git lfs pull`";
    }
    switch (first_word(bytes)) {
        case 20240522:
            return "is an llm.c evaluation file (magic 20240522), not a token shard";
        case 20240326:
            return "is an llm.c model checkpoint (magic 20240326), not a token shard";
        case 20240527:
            return "is an llm.c optimizer state (magic 20240527), not a token shard";
        default:
            break;
    }
    if (as_text(bytes).starts_with("BIN.TOK\n")) {
        return "is an llmq token file, which dcp does not read; convert it to a Megatron dataset";
    }
    const bool is_gzip = as_text(bytes).starts_with("\x1f\x8b");
    if (is_gzip || looks_like_text(bytes)) {
        return fmt::format(
            "is {}, not a dataset; make one of it with `dcp data import --out "
            "PREFIX {}`",
            is_gzip ? "gzip data" : "plain text", file.path());
    }
    if (file.path().ends_with(".bin")) {
        const std::string prefix = file.path().substr(0, file.path().size() - 4);
        return fmt::format(
            "is no llm.c shard and has no index {}.idx beside it; copy that too, "
            "or name another dataset ({})",
            prefix, missing_path_hint(prefix, true));
    }
    return "is neither a Megatron dataset (PREFIX.bin and PREFIX.idx) nor an llm.c shard";
}

}  // namespace dcp::data
