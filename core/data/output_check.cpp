#include "core/data/output_check.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::data {
namespace {

namespace fs = std::filesystem;

// The absolute path without links; parts that do not exist yet stay as they are.
fs::path real_path(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(fs::absolute(path), error);
    return error ? fs::absolute(path).lexically_normal() : real;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
           folder.end();
}

}  // namespace

void check_output(const std::string& prefix, const std::vector<std::string>& inputs) {
    std::error_code error;
    if (prefix.empty() || prefix.ends_with('/') || fs::is_directory(prefix, error)) {
        throw DataError(fmt::format("--out {}: is a folder; add the dataset's name, for example {}",
                                    prefix, (fs::path(prefix) / "text").string()));
    }
    for (const std::string& input : inputs) {
        const fs::path real_input = real_path(input);
        const bool is_folder = fs::is_directory(real_input, error);
        for (const char* ending : {".bin", ".idx"}) {
            const fs::path output = real_path(prefix + ending);
            if (is_folder ? is_inside(output, real_input) : output == real_input) {
                throw DataError(fmt::format(
                    "--out {}: {} {} the input {}; choose a place outside the inputs", prefix,
                    output.filename().string(), is_folder ? "would lie inside" : "is", input));
            }
        }
    }
}

void check_replaceable(const std::string& prefix) {
    constexpr std::string_view kMagic = "MMIDIDX";
    std::error_code error;
    const std::string bin = prefix + ".bin";
    if (!fs::exists(fs::symlink_status(bin, error)) || fs::exists(prefix + ".idx.partial", error)) {
        return;
    }
    std::ifstream index(prefix + ".idx", std::ios::binary);
    std::array<char, kMagic.size()> start{};
    index.read(start.data(), start.size());
    if (std::string_view(start.data(), start.size()) != kMagic) {
        throw ConfigError(
            fmt::format("--out {}: {} exists and is no dataset (no index {}.idx belongs to it), so "
                        "it is not replaced; choose another name or move the file away",
                        prefix, bin, prefix));
    }
}

}  // namespace dcp::data
