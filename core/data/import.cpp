#include "core/data/import.hpp"

#include <span>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/data/dataset_writer.hpp"
#include "core/data/file_list.hpp"
#include "core/data/output_check.hpp"
#include "core/data/text_reader.hpp"

namespace dcp::data {

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
