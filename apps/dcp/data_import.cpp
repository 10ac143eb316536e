// dcp data import: text files to a dataset.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "apps/dcp/data_commands.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/data/import.hpp"
#include "core/train/stop_signal.hpp"

namespace dcp {
namespace {

constexpr const char* kDescription = R"(Make a dataset of text files

Every file becomes one document: its bytes as tokens 0 to 255, then 256 for the end of
the document; train on it with model.vocab 257. Paths are taken in the order given, the
files of a folder in the order of their names' bytes. Empty files, links to files that
are in already, links to folders and whatever is not a file are left out and counted;
a broken .gz ends the import. PREFIX must lie outside the folders that are read.)";

constexpr const char* kExamples = R"(Examples:
  dcp data import --out data/manpages /usr/share/man/man1 /usr/share/man/man3
  dcp data import --out data/books ~/books/*.txt.gz

Exit status: 0 done, 2 the files cannot be what is asked for, 3 the dataset cannot be
written, or a signal ended it.)";

// Progress on stderr: on a terminal one line that is written over, elsewhere (a log) a line now and
// then.
class ProgressLine {
public:
    void show(const data::ImportProgress& progress) {
        const auto now = Clock::now();
        if (now - last_shown_ < std::chrono::milliseconds(is_terminal_ ? 100 : 10000)) {
            return;
        }
        last_shown_ = now;
        const double seconds = std::chrono::duration<double>(now - start_).count();
        const double bytes_per_second = static_cast<double>(progress.file_bytes_done) / seconds;
        const std::string text = fmt::format(
            "{} of {} files, {} of {}, {} tokens, {}/s", format_count(progress.files_done),
            format_count(progress.num_files), format_bytes(progress.file_bytes_done),
            format_bytes(progress.file_bytes), format_count(progress.num_tokens),
            format_bytes(static_cast<std::int64_t>(bytes_per_second)));
        fmt::print(stderr, "{}{}{}", is_terminal_ ? kLineStart : "", text,
                   is_terminal_ ? "" : "\n");
        std::fflush(stderr);
    }

    void clear() const {
        if (is_terminal_) {
            fmt::print(stderr, "{}", kLineStart);
        }
    }

    double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr const char* kLineStart = "\r\033[K";  // and clears what was there

    bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
    Clock::time_point start_ = Clock::now();
    Clock::time_point last_shown_ = start_;
};

void print_left_out(const data::ImportReport& report) {
    constexpr std::size_t kMostNames = 5;
    const auto print = [](std::int64_t count, const char* one, const char* many) {
        if (count > 0) {
            fmt::print("left out: {} {}\n", format_count(count), count == 1 ? one : many);
        }
    };
    print(static_cast<std::int64_t>(report.empty_files.size()), "empty file", "empty files");
    for (std::size_t i = 0; i < std::min(kMostNames, report.empty_files.size()); ++i) {
        fmt::print("    {}\n", report.empty_files[i]);
    }
    if (report.empty_files.size() > kMostNames) {
        fmt::print("    and {} more\n", report.empty_files.size() - kMostNames);
    }
    print(report.repeated, "link to a file that is in already, or file named twice",
          "links to files that are in already, or files named twice");
    print(report.folder_links, "link to a folder", "links to folders");
    print(report.not_regular, "device, pipe, socket or broken link",
          "devices, pipes, sockets or broken links");
}

void run_import(const std::string& out, const std::vector<std::string>& inputs) {
    std::string prefix = out;
    if (prefix.ends_with(".bin") || prefix.ends_with(".idx")) {
        prefix.resize(prefix.size() - 4);
    }
    const train::StopSignal stop(/*speaks=*/false);
    ProgressLine line;
    data::ImportReport report;
    try {
        report = data::import_files(prefix, inputs, [&](const data::ImportProgress& progress) {
            if (stop.requested() && progress.files_done < progress.num_files) {
                throw IoError(
                    fmt::format("{}: interrupted by {}; nothing was written", prefix, stop.name()));
            }
            line.show(progress);
        });
    } catch (...) {
        line.clear();  // the message starts on a line of its own
        throw;
    }
    line.clear();
    fmt::print("{}: {}, {} from {} in {}\n", prefix,
               format_counted(report.num_documents, "document"),
               format_counted(report.num_tokens, "token"), format_bytes(report.file_bytes),
               format_seconds(line.seconds()));
    print_left_out(report);
}

}  // namespace

void add_data_import(CLI::App& parent) {
    struct Options {
        std::string out;
        std::vector<std::string> inputs;
    };
    const auto options = std::make_shared<Options>();
    CLI::App* import = parent.add_subcommand("import", kDescription);
    import
        ->add_option("--out", options->out,
                     "The dataset to write, PREFIX.bin and PREFIX.idx; an older\n"
                     "one is replaced when the new one is complete")
        ->type_name("PREFIX")
        ->required();
    import
        ->add_option("PATH", options->inputs,
                     "Files, and folders with all in them; .gz is decompressed")
        ->type_name("")
        ->required();
    import->footer(kExamples);
    import->callback([options] { run_import(options->out, options->inputs);
});
}  // namespace dcp

}  // namespace dcp
