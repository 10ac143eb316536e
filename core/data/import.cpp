#include "core/data/import.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/data/dataset_writer.hpp"
#include "core/data/file_list.hpp"
#include "core/data/text_reader.hpp"

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

// An output among the inputs would be read while it grows, or be imported by the next run.
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

// A .bin is ours to replace when a Megatron index is beside it, or the half-finished one of an
// import that was killed; otherwise it is somebody's file that happens to have that name.
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

}  // namespace

ImportReport import_files(const std::string& prefix,
                          const std::vector<std::string>& inputs,
                          const std::function<void(const ImportProgress&)>& on_progress) {
    check_output(prefix, inputs);
    check_replaceable(prefix);
    const FileList list = list_files(inputs);
    ImportReport report;
    report.repeated = list.repeated;
    report.folder_links = list.folder_links;
    report.not_regular = list.not_regular;
    ImportProgress progress;
    progress.num_files = static_cast<std::int64_t>(list.paths.size());
    progress.file_bytes = list.total_bytes;
    DatasetWriter writer(prefix);
    std::vector<std::uint16_t> tokens;
    for (const std::string& path : list.paths) {
        TextReader reader(path);
        bool is_empty = true;
        for (auto bytes = reader.read(); !bytes.empty(); bytes = reader.read()) {
            is_empty = false;
            tokens.assign(bytes.begin(), bytes.end());
            writer.append(tokens);
            progress.file_bytes_done = report.file_bytes + reader.file_bytes_read();
            progress.num_tokens = writer.num_tokens();
            on_progress(progress);
        }
        report.file_bytes += reader.file_bytes_read();
        if (is_empty) {
            report.empty_files.push_back(path);
        } else {
            writer.append(std::span(&kEndOfDocument, 1));
            writer.end_document();
        }
        ++progress.files_done;
    }
    if (writer.num_documents() == 0) {
        throw DataError(
            fmt::format("nothing to import: {} files, of them {} empty; {} links, "
                        "devices and the like were left out",
                        list.paths.size(), report.empty_files.size(),
                        list.repeated + list.folder_links + list.not_regular));
    }
    writer.commit();
    report.num_documents = writer.num_documents();
    report.num_tokens = writer.num_tokens();
    progress.num_tokens = writer.num_tokens();
    on_progress(progress);
    return report;
}

}  // namespace dcp::data
