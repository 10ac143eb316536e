// `dcp data import`: what is in the dataset, byte for byte, and what remains when it fails.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/dataset_files.hpp"
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/errors.hpp"
#include "core/data/dataset_writer.hpp"
#include "core/data/import.hpp"
#include "core/data/token_store.hpp"

namespace dcp::test {
namespace {

namespace fs = std::filesystem;

void no_progress(const data::ImportProgress&) {}

std::string gzip(const std::string& text, int level = 6) {
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) ==
            Z_OK);
    std::string packed(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

// What the format asks for: each text's bytes and the token 256, one sequence a document.
MegatronFiles expected_dataset(const std::vector<std::string>& texts) {
    std::vector<std::vector<std::int64_t>> documents;
    for (const std::string& text : texts) {
        documents.emplace_back();
        for (const char letter : text) {
            documents.back().push_back(static_cast<unsigned char>(letter));
        }
        documents.back().push_back(256);
    }
    return documents_of(std::move(documents));
}

void check_dataset(const std::string& prefix, const std::vector<std::string>& texts) {
    const MegatronFiles expected = expected_dataset(texts);
    CHECK(read_file(prefix + ".bin") == expected.bin());
    CHECK(read_file(prefix + ".idx") == expected.idx());
    CHECK_FALSE(fs::exists(prefix + ".bin.partial"));
    CHECK_FALSE(fs::exists(prefix + ".idx.partial"));
}

std::string long_text(std::size_t num_bytes) {
    std::string text(num_bytes, '\0');
    std::uint32_t state = 1;
    for (char& letter : text) {
        state = state * 1664525 + 1013904223;
        letter = static_cast<char>(state >> 24);
    }
    return text;
}

TEST_CASE("files and folders become documents in order", "[unit]") {
    DatasetFolder folder;
    const std::string text = long_text(700001);  // more than two buffers, hardly compressible
    fs::create_directories(folder / "in/a");
    fs::create_directories(folder / "in/empty_folder");
    write_file(folder / "in/a/z", "in a/z");
    write_file(folder / "in/a.txt", "in a.txt");  // '.' is before '/'
    write_file(folder / "in/B", std::string("\0\xff\n", 3));
    write_file(folder / "in/long.gz", gzip(text));
    write_file(folder / "in/members.gz",
               gzip("one, ") + gzip("") + gzip("two") + std::string(600, '\0'));
    write_file(folder / "in/hidden_gzip", gzip("found by its first bytes"));
    write_file(folder / "in/nothing", "");
    write_file(folder / "in/nothing.gz", gzip(""));
    write_file(folder / "first", "named first");
    write_file(folder / "outside", "outside");
    fs::create_symlink(folder / "in", folder / "in/a/loop");
    fs::create_symlink("z", folder / "in/a/another_z");
    fs::create_symlink(folder / "outside", folder / "in/link");
    fs::create_symlink("no such file", folder / "in/broken");
    REQUIRE(::mkfifo((folder / "in/pipe").c_str(), 0600) == 0);

    const auto report = data::import_files(
        folder / "out/new/set",
        {folder / "first", folder / "in", folder / "first", folder / "in/B"}, no_progress);
    check_dataset(folder / "out/new/set",
                  {"named first", std::string("\0\xff\n", 3), "in a.txt", "in a/z",
                   "found by its first bytes", "outside", text, "one, two"});
    CHECK(report.num_documents == 8);
    CHECK(report.num_tokens == data::TokenStore(folder / "out/new/set", 257).num_tokens());
    CHECK(report.empty_files ==
          std::vector<std::string>{folder / "in/nothing", folder / "in/nothing.gz"});
    CHECK(report.repeated == 3);      // a/another_z, first, in/B
    CHECK(report.folder_links == 1);  // a/loop
    CHECK(report.not_regular == 2);   // broken, pipe
}

TEST_CASE("gzip members that end anywhere near the end of a buffer", "[unit]") {
    constexpr std::int64_t kBuffer = 262144;
    constexpr int kStored = 0;  // so that the length of the member follows from that of the text
    const auto overhead = std::ssize(gzip(std::string(260000, 'x'), kStored)) - 260000;
    DatasetFolder folder;
    for (std::int64_t shift = -30; shift <= 5; ++shift) {
        const std::string text = long_text(static_cast<std::size_t>(kBuffer - overhead + shift));
        const std::string first = gzip(text, kStored);
        REQUIRE(std::ssize(first) == kBuffer + shift);
        write_file(folder / "in.gz", first + gzip("tail") + gzip("end") + std::string(3, '\0'));
        data::import_files(folder / "set", {folder / "in.gz"}, no_progress);
        check_dataset(folder / "set", {text + "tailend"});
    }
}

TEST_CASE("progress reaches the totals", "[unit]") {
    DatasetFolder folder;
    write_file(folder / "a", long_text(600000));
    write_file(folder / "b.gz", gzip("text"));
    data::ImportProgress last;
    int calls = 0;
    data::import_files(folder / "set", {folder / "a", folder / "b.gz"},
                       [&](const data::ImportProgress& now) {
                           CHECK(now.file_bytes_done >= last.file_bytes_done);
                           CHECK(now.num_files == 2);
                           last = now;
                           ++calls;
                       });
    CHECK(calls > 3);
    CHECK(last.files_done == 2);
    CHECK(last.file_bytes_done == last.file_bytes);
    CHECK(last.num_tokens == 600000 + 1 + 4 + 1);
}

struct BadInput {
    const char* what;
    std::function<void(const DatasetFolder&)> make;  // files in `in`
    std::string out;
    std::vector<std::string> words;
};

std::vector<BadInput> bad_inputs() {
    const std::string packed = gzip(long_text(5000));
    std::string damaged = packed;
    for (std::size_t i = 2000; i < 2040; ++i) {
        damaged[i] = static_cast<char>(~damaged[i]);
    }
    const auto file = [](const std::string& name, const std::string& bytes) {
        return [=](const DatasetFolder& folder) { write_file(folder / ("in/" + name), bytes); };
    };
    return {
        {"gzip cut short",
         file("x.gz", packed.substr(0, packed.size() - 9)),
         "set",
         {"in/x.gz", "truncated gzip"}},
        {"gzip cut in its header", file("x.gz", packed.substr(0, 5)), "set", {"truncated gzip"}},
        {"gzip damaged", file("x.gz", damaged), "set", {"in/x.gz", "broken gzip data"}},
        {"gzip with other data behind",
         file("x.gz", packed + "hello"),
         "set",
         {"in/x.gz", "other data behind"}},
        {"not gzip", file("x.gz", "plain"), "set", {"in/x.gz", "not gzip data"}},
        {"git-lfs pointer",
         file("x", "version https://git-lfs.github.com/spec/v1\noid "),
         "set",
         {"in/x", "git-lfs pointer", "git lfs pull"}},
        {"only empty files", file("x", ""), "set", {"nothing to import", "1 files", "1 empty"}},
        {"empty folder", [](const DatasetFolder&) {}, "set", {"nothing to import: 0 files"}},
        {"output inside the input", file("x", "text"), "in/set", {"--out", "inside the input"}},
        {"output deeper inside", file("x", "text"), "in/new/set", {"--out", "inside the input"}},
        {"output is a folder", file("x", "text"), "in", {"--out", "is a folder"}},
        {"no output name", file("x", "text"), "out/", {"--out", "is a folder"}},
    };
}

TEST_CASE("bad inputs are refused and leave nothing behind", "[unit]") {
    for (const BadInput& bad : bad_inputs()) {
        DatasetFolder folder;
        fs::create_directory(folder / "in");
        bad.make(folder);
        std::string message = "no error at all";
        try {
            data::import_files(folder / bad.out, {folder / "in"}, no_progress);
        } catch (const DataError& error) {
            message = error.what();
        }
        INFO(bad.what << ": " << message);
        for (const std::string& word : bad.words) {
            CHECK_THAT(message, Catch::Contains(word));
        }
        CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
    }
    DatasetFolder folder;
    write_file(folder / "chapter1.txt", "text");
    CHECK_THROWS_WITH(data::import_files(folder / "set", {folder / "chapter2.txt"}, no_progress),
                      Catch::Contains("chapter2.txt: No such file or directory") &&
                          Catch::Contains("nearest existing") && Catch::Contains("chapter1.txt"));
    write_file(folder / "set.bin", "text that happens to be named so");
    CHECK_THROWS_WITH(data::import_files(folder / "set", {folder / "set.bin"}, no_progress),
                      Catch::Contains("set.bin is the input"));
}

// Runs `action` in a child process; returns what waitpid says.
int in_child(const std::function<void()>& action) {
    const pid_t child = ::fork();
    if (child == 0) {
        action();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

TEST_CASE("a full disk is an IoError that names the file", "[unit]") {
    DatasetFolder folder;
    write_file(folder / "in", long_text(3000000));
    // A limit on file sizes fails a write just as a full disk does, without filling one.
    const int status = in_child([&] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{.rlim_cur = 2000000, .rlim_max = 2000000};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        try {
            data::import_files(folder / "set", {folder / "in"}, no_progress);
        } catch (const IoError& error) {
            const std::string message = error.what();
            const bool is_clear = message.find("set.bin.partial: cannot write") != message.npos;
            ::_exit(is_clear && !fs::exists(folder / "set.bin.partial") ? 42 : 43);
        }
    });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("an import that is killed leaves no dataset that opens", "[unit]") {
    DatasetFolder folder;
    fs::create_directory(folder / "in");
    for (int i = 0; i < 20; ++i) {
        write_file(folder / ("in/" + std::to_string(i)), long_text(50000));
    }
    for (const int fatal_call : {1, 7, 20}) {
        const int status = in_child([&] {
            int calls = 0;
            data::import_files(folder / "set", {folder / "in"}, [&](const data::ImportProgress&) {
                if (++calls == fatal_call) {
                    ::kill(::getpid(), SIGKILL);
                }
            });
        });
        REQUIRE(WIFSIGNALED(status));
        CHECK_THROWS_AS(data::TokenStore(folder / "set"), DataError);
        CHECK_THROWS_AS(data::TokenStore(folder / "set.bin.partial"), DataError);
    }
    // The next import clears up after the killed one.
    data::import_files(folder / "set", {folder / "in"}, no_progress);
    CHECK(data::TokenStore(folder / "set", 257).num_documents() == 20);
    CHECK_FALSE(fs::exists(folder / "set.bin.partial"));
}

TEST_CASE("killed at any moment: the old dataset, none or the new one", "[unit]") {
    DatasetFolder folder;
    write_file(folder / "old", "old");
    fs::create_directory(folder / "in");
    for (int i = 0; i < 8; ++i) {
        write_file(folder / ("in/" + std::to_string(i)), "new");
    }
    int finished = 0;
    for (int round = 0; round < 60; ++round) {
        data::import_files(folder / "set", {folder / "old"}, no_progress);
        const pid_t child = ::fork();
        if (child == 0) {
            data::import_files(folder / "set", {folder / "in"}, no_progress);
            ::_exit(0);
        }
        ::usleep(static_cast<useconds_t>(100 * round));
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        finished += WIFEXITED(status) ? 1 : 0;
        try {
            const data::TokenStore store(folder / "set", 257);
            const bool is_old = store.num_documents() == 1 && store.num_tokens() == 4;
            const bool is_new = store.num_documents() == 8 && store.num_tokens() == 32;
            CHECK((is_old || is_new));
            CHECK((!WIFEXITED(status) || is_new));
        } catch (const DataError& error) {
            // Between the old index taken away and the new one in place.
            CHECK_THAT(error.what(), Catch::Contains("set.idx"));
        }
    }
    INFO(finished << " of 60 finished before they were killed");
    CHECK(finished < 60);
}

TEST_CASE("a file of another kind is not replaced", "[unit]") {
    DatasetFolder folder;
    write_file(folder / "in", "text");
    write_file(folder / "set.bin", "weights of somebody");
    const auto import = [&] { data::import_files(folder / "set", {folder / "in"}, no_progress); };
    CHECK_THROWS_AS(import(), ConfigError);
    CHECK_THROWS_WITH(import(), Catch::Contains("set.bin exists and is no dataset"));
    write_file(folder / "set.idx", "an index of another kind");
    CHECK_THROWS_AS(import(), ConfigError);
    CHECK(test::read_file(folder / "set.bin") == "weights of somebody");
    fs::remove(folder / "set.bin");
    import();
    import();  // over a dataset
    CHECK(data::TokenStore(folder / "set").num_tokens() == 5);
}

TEST_CASE("two imports into one dataset at a time are refused", "[unit]") {
    DatasetFolder folder;
    write_file(folder / "in", "text");
    data::DatasetWriter first(folder / "set");
    CHECK_THROWS_WITH(data::import_files(folder / "set", {folder / "in"}, no_progress),
                      Catch::Contains("another process is writing"));
    const std::vector<std::uint16_t> tokens{1, 2, 256};
    first.append(tokens);
    first.end_document();
    first.commit();
    CHECK(data::TokenStore(folder / "set").num_tokens() == 3);
}

}  // namespace
}  // namespace dcp::test
