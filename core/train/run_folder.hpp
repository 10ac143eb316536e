// The folder a run writes into. One process at a time; what an earlier run left there is moved
// aside, never overwritten.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace dcp::train {

// A file that grows by whole records. Each is with the operating system when append() returns;
// otherwise IoError names the file, and what was written of the record is cut off again.
class GrowingFile {
public:
    explicit GrowingFile(std::string path);
    ~GrowingFile();
    GrowingFile(const GrowingFile&) = delete;
    GrowingFile& operator=(const GrowingFile&) = delete;

    void append(std::string_view record);

private:
    std::string path_;
    int descriptor_;
};

// The same for lines of text.
class LineFile {
public:
    explicit LineFile(std::string path) : file_(std::move(path)) {}
    void append(std::string_view line);  // without its newline

private:
    GrowingFile file_;
};

class RunFolder {
public:
    // Makes the folder and takes its lock, which lasts as long as this object. Files of an earlier
    // run (config.yaml, metrics.jsonl, samples.jsonl, weights, event files, traces) go to
    // FOLDER/earlier-N. ConfigError when another process runs there or when it cannot be made or
    // written; IoError when the disk is full.
    explicit RunFolder(const std::string& path);
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    std::string file(std::string_view name) const;
    const std::string& earlier() const {
        return earlier_;
    }  // where an earlier run's files went; empty: there were none

    // Written beside its place and renamed, so that no reader ever sees half of it.
    void write(std::string_view name, std::string_view text) const;

private:
    std::string path_;
    std::string earlier_;
    int lock_ = -1;
};

}  // namespace dcp::train
