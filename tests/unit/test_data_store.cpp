// Datasets as other tools write them are read exactly, and every way in which one can be wrong is
// refused with a message that says what and what to do.
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/dataset_files.hpp"
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/errors.hpp"
#include "core/data/hints.hpp"
#include "core/data/token_store.hpp"

namespace dcp::test {
namespace {

using data::TokenStore;

std::vector<std::int64_t> read_document(const TokenStore& store, std::int64_t document) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.document_tokens(document)));
    store.read(document, 0, tokens);
    return {tokens.begin(), tokens.end()};
}

TEST_CASE("every integer type of a Megatron dataset is read", "[unit]") {
    struct Case {
        int code;
        std::vector<std::int64_t> extremes;
    };
    const auto c = GENERATE(values<Case>({{1, {0, 255}},
                                          {2, {-128, 127}},
                                          {3, {-32768, 32767}},
                                          {4, {-2147483648, 2147483647}},
                                          {5, {-2147483648, 2147483647}},
                                          {8, {0, 65535}}}));
    DatasetFolder folder;
    documents_of({c.extremes, {}, {7}, {1, 2, 3, 4, 5}}, c.code).write(folder / "set");
    for (const char* name : {"set", "set.bin", "set.idx"}) {
        const TokenStore store(folder / name);
        CHECK(store.kind() == data::StoreKind::kMegatron);
        CHECK(store.name() == folder / "set");
        REQUIRE(store.num_documents() == 4);
        CHECK(store.num_tokens() == 8);
        CHECK(read_document(store, 0) == c.extremes);
        CHECK(read_document(store, 1).empty());
        CHECK(read_document(store, 2) == std::vector<std::int64_t>{7});
        CHECK(read_document(store, 3) == std::vector<std::int64_t>{1, 2, 3, 4, 5});
        CHECK(store.token_range().min == c.extremes[0]);
        CHECK(store.token_range().max == c.extremes[1]);
    }
}

TEST_CASE("a document may have several sequences, in any place of the .bin", "[unit]") {
    MegatronFiles files;
    files.type_code = 8;
    files.sequences = {{10, 11, 12}, {}, {13}, {20, 21}, {22, 23, 24, 25}};
    files.documents = {0, 3, 3, 5};
    const bool is_shuffled = GENERATE(false, true);
    files.modes = GENERATE(false, true);
    DatasetFolder folder;
    files.write(folder / "set");
    if (is_shuffled) {  // a gap before, and the last sequence stored first
        MegatronFiles moved = files;
        moved.offsets = std::vector<std::int64_t>{10, 16, 18, 20, 2};
        moved.write(folder / "set");
        write_file(folder / "set.bin",
                   number_bytes({99, 22, 23, 24, 25, 10, 11, 12, 98, 13, 20, 21, 97}, 2));
    }
    const TokenStore store(folder / "set", 26);
    REQUIRE(store.index().is_contiguous() == !is_shuffled);
    CHECK(store.index().has_modes() == files.modes);
    CHECK(store.index().unused_bytes() == (is_shuffled ? 2 : 0));
    CHECK((store.warning().find("does not cover the last 2 of 26 bytes") != std::string::npos) ==
          is_shuffled);
    CHECK(store.warning().empty() != is_shuffled);
    CHECK(read_document(store, 0) == std::vector<std::int64_t>{10, 11, 12, 13});
    CHECK(read_document(store, 1).empty());
    CHECK(read_document(store, 2) == std::vector<std::int64_t>{20, 21, 22, 23, 24, 25});
    for (std::int64_t first = 0; first <= 6; ++first) {
        for (std::int64_t count = 0; first + count <= 6; ++count) {
            std::vector<std::int32_t> part(static_cast<std::size_t>(count) + 1, -7);
            store.read(2, first, std::span(part).first(static_cast<std::size_t>(count)));
            for (std::int64_t i = 0; i < count; ++i) {
                CHECK(part[static_cast<std::size_t>(i)] == 20 + first + i);
            }
            CHECK(part.back() == -7);
        }
    }
    std::vector<std::int32_t> out(3);
    CHECK_THROWS_AS(store.read(2, 4, out), ShapeError);
    CHECK_THROWS_AS(store.read(2, -1, out), ShapeError);
}

TEST_CASE("an llm.c shard is one document", "[unit]") {
    DatasetFolder folder;
    write_file(folder / "gpt2.bin", LlmcFile{.tokens = {50256, 1, 65535, 50256, 2}}.bytes());
    const TokenStore gpt2(folder / "gpt2.bin");
    CHECK(gpt2.kind() == data::StoreKind::kLlmc);
    REQUIRE(gpt2.num_documents() == 1);
    CHECK(read_document(gpt2, 0) == std::vector<std::int64_t>{50256, 1, 65535, 50256, 2});
    CHECK(TokenStore(folder / "gpt2").num_tokens() == 5);

    const LlmcFile llama{
        .magic = 20240801, .version = 7, .tokens = {128000, 128255, 0}, .width = 4};
    write_file(folder / "llama.bin", llama.bytes());
    write_file(folder / "without_ending", llama.bytes());
    CHECK(read_document(TokenStore(folder / "llama.bin", 128256), 0) == llama.tokens);
    CHECK(read_document(TokenStore(folder / "without_ending"), 0) == llama.tokens);
}

TEST_CASE("values that int32 cannot hold are never turned into others", "[unit]") {
    DatasetFolder folder;
    documents_of({{1, 2}, {3, std::int64_t{1} << 32}}, 5).write(folder / "set");
    const TokenStore store(folder / "set");
    CHECK(read_document(store, 0) == std::vector<std::int64_t>{1, 2});
    CHECK_THROWS_WITH(read_document(store, 1),
                      Catch::Contains("token 4294967296 at position 1 of document 1"));
}

TEST_CASE("offsets beyond 4 GiB", "[unit]") {
    // A sparse .bin of 3 sequences of 2^31 - 2 tokens: 12 GiB by size, a few blocks on disk.
    DatasetFolder folder;
    const std::int64_t tokens = 2147483646;
    MegatronFiles files;
    files.documents = {0, 1, 2, 3};
    files.sequence_count = 3;
    files.lengths = std::vector<std::int64_t>{tokens, tokens, tokens};
    files.offsets = std::vector<std::int64_t>{0, 2 * tokens, 4 * tokens};
    write_file(folder / "set.idx", files.idx());
    const int file = ::open((folder / "set.bin").c_str(), O_CREAT | O_WRONLY, 0600);
    REQUIRE(file >= 0);
    REQUIRE(::ftruncate(file, 6 * tokens) == 0);
    const std::string last = number_bytes({301, 302, 303}, 2);
    REQUIRE(::pwrite(file, last.data(), 6, 6 * tokens - 6) == 6);
    const std::string middle = number_bytes({201}, 2);
    REQUIRE(::pwrite(file, middle.data(), 2, 4 * tokens) == 2);
    ::close(file);

    const TokenStore store(folder / "set");
    CHECK(store.num_tokens() == 3 * tokens);
    std::vector<std::int32_t> out(4);
    store.read(2, tokens - 4, out);
    CHECK(out == std::vector<std::int32_t>{0, 301, 302, 303});
    store.read(2, 0, out);
    CHECK(out == std::vector<std::int32_t>{201, 0, 0, 0});

    REQUIRE(::truncate((folder / "set.bin").c_str(), 6 * tokens - 1) == 0);
    CHECK_THROWS_WITH(TokenStore(folder / "set"),
                      Catch::Contains("places sequence 2 at bytes 8589934584 to 12884901876"));
}

struct BadFile {
    const char* what;
    std::function<std::string(const DatasetFolder&)> make;  // returns what is opened
    std::vector<std::string> words;                         // the message has each of them
    std::vector<std::string> absent = {};                   // and none of these
};

// A good dataset of three documents, spoilt by `spoil` before it is written.
std::function<std::string(const DatasetFolder&)> spoilt(
    const std::function<void(MegatronFiles&)>& spoil) {
    return [spoil](const DatasetFolder& folder) {
        MegatronFiles files = documents_of({{1, 2, 3}, {4, 5}, {6, 7, 8, 9}});
        spoil(files);
        files.write(folder / "set");
        return folder / "set";
    };
}

// A good dataset with other bytes in one of its files.
std::function<std::string(const DatasetFolder&)> replaced(
    const std::string& ending, const std::function<std::string(std::string)>& change) {
    return [=](const DatasetFolder& folder) {
        documents_of({{1, 2, 3}, {4, 5}, {6, 7, 8, 9}}).write(folder / "set");
        const std::string path = folder / "set" + ending;
        write_file(path, change(read_file(path)));
        return folder / "set";
    };
}

std::function<std::string(const DatasetFolder&)> single(const std::string& name,
                                                        const std::string& bytes) {
    return [=](const DatasetFolder& folder) {
        write_file(folder / name, bytes);
        return folder / name;
    };
}

const std::string kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f3"
    "2b1258daaa5e2ca24d17e2393\nsize 12345\n";

std::vector<BadFile> bad_indexed_datasets() {
    using Bytes = std::string;
    return {
        {"idx empty", replaced(".idx", [](Bytes) { return Bytes(); }), {"set.idx", "is empty"}},
        {"bin empty",
         replaced(".bin", [](Bytes) { return Bytes(); }),
         {"set.bin", "has 0 bytes", "sequence 0", "truncated"}},
        {"idx is a git-lfs pointer",
         replaced(".idx", [](Bytes) { return kLfsPointer; }),
         {"set.idx", "git-lfs pointer", "git lfs pull"}},
        {"bin is a git-lfs pointer",
         replaced(".bin", [](Bytes) { return kLfsPointer; }),
         {"set.bin", "git-lfs pointer", "git lfs pull"}},
        {"idx header cut",
         replaced(".idx", [](Bytes b) { return b.substr(0, 20); }),
         {"set.idx", "truncated", "20 bytes", "34"}},
        {"idx one byte short",
         replaced(".idx", [](Bytes b) { return b.substr(0, b.size() - 1); }),
         {"set.idx", "truncated", "101 bytes", "102"}},
        {"idx with trailing bytes",
         replaced(".idx", [](Bytes b) { return b + "xx"; }),
         {"set.idx", "wrong size", "104 bytes", "102"}},
        {"bin one byte short",
         replaced(".bin", [](Bytes b) { return b.substr(0, b.size() - 1); }),
         {"set.bin", "has 17 bytes", "sequence 2", "bytes 10 to 18", "truncated"}},
        {"wrong magic",
         spoilt([](auto& f) { f.magic = "TNTIDX\0\0\0"; }),
         {"set.idx", "does not start with MMIDIDX", "make the dataset again"}},
        {"version 2",
         spoilt([](auto& f) { f.version = 2; }),
         {"set.idx", "version 2", "version 1"}},
        {"float32",
         spoilt([](auto& f) { f.type_code = 7; }),
         {"set.idx", "float32", "code 7", "must be integers"}},
        {"float64", spoilt([](auto& f) { f.type_code = 6; }), {"set.idx", "float64", "code 6"}},
        {"type code 0",
         spoilt([](auto& f) { f.type_code = 0; }),
         {"set.idx", "type code 0", "uint16"}},
        {"type code 9", spoilt([](auto& f) { f.type_code = 9; }), {"set.idx", "type code 9"}},
        {"huge sequence count",
         spoilt([](auto& f) { f.sequence_count = std::int64_t{1} << 61; }),
         {"set.idx", "claims 2305843009213693952 sequences", "only 102 bytes"}},
        {"huge document count",
         spoilt([](auto& f) { f.document_count = -1; }),
         {"set.idx", "18446744073709551615 document entries"}},
        {"no document entries",
         spoilt([](auto& f) { f.documents = {}; }),
         {"set.idx", "no document index"}},
        {"documents start late",
         spoilt([](auto& f) {
             f.documents = {1, 2, 3};
         }),
         {"set.idx", "first document starts at sequence 1 instead of 0"}},
        {"merged without shift",
         spoilt([](auto& f) {
             f.documents = {0, 2, 0, 1};
         }),
         {"set.idx", "falls from 2 to 0 at entry 2", "merged", "older Megatron and NeMo"}},
        {"merged without the second",
         spoilt([](auto& f) {
             f.documents = {0, 1, 2};
         }),
         {"set.idx", "end at sequence 2 of 3", "merged"}},
        {"documents beyond the sequences",
         spoilt([](auto& f) {
             f.documents = {0, 1, 4};
         }),
         {"set.idx", "end at sequence 4 but there are only 3"}},
        {"negative length",
         spoilt([](auto& f) {
             f.lengths = {{3, -2, 4}};
         }),
         {"set.idx", "sequence 1", "negative length -2"}},
        {"negative offset",
         spoilt([](auto& f) {
             f.offsets = {{0, -6, 10}};
         }),
         {"set.idx", "sequence 1", "negative byte -6", "overflowed"}},
        {"odd offset",
         spoilt([](auto& f) {
             f.offsets = {{0, 5, 10}};
         }),
         {"set.idx", "sequence 1", "byte 5", "multiple of its 2"}},
        {"offset beyond the bin",
         spoilt([](auto& f) {
             f.offsets = {{0, 6, 1000}};
         }),
         {"set.bin", "has 18 bytes", "sequence 2", "1000"}},
        {"offset near 2^63",
         spoilt([](auto& f) {
             f.offsets = {{0, 6, INT64_MAX - 1}};
         }),
         {"set.bin", "sequence 2", "9223372036854775806"}},
        {"no tokens",
         spoilt([](auto& f) {
             f = documents_of({{}, {}});
         }),
         {"set", "no tokens"}},
        {"no documents", spoilt([](auto& f) { f = documents_of({}); }), {"set", "no tokens"}},
    };
}

std::vector<BadFile> bad_other_files() {
    LlmcFile shard{.tokens = {1, 2, 3}};
    const std::string good = shard.bytes();
    const auto shard_with = [&](std::int64_t magic, std::int64_t version, std::int64_t count) {
        LlmcFile bad = shard;
        bad.magic = magic;
        bad.version = version;
        bad.count = count;
        return bad.bytes();
    };
    std::string binary("\1\2\3\0\5\6", 6);
    return {
        {"nothing there",
         [](const auto& f) { return f / "set"; },
         {"set: no such dataset", "has no dataset"}},
        {"no such folder",
         [](const auto& f) { return f / "nowhere/set"; },
         {"no such dataset", "there is no folder", "nowhere"}},
        {"a slip of the finger",
         [](const auto& f) {
             documents_of({{1, 2}}).write(f / "manpages");
             return f / "manpagse";
         },
         {"manpagse: no such dataset", "nearest existing", "/manpages"}},
        {"only datasets are suggested",
         [](const auto& f) {
             documents_of({{1, 2}}).write(f / "manpages");
             write_file(f / "manpagez.bin", "not a dataset");
             write_file(f / "manpagey.idx", documents_of({{1, 2}}).idx());
             return f / "manpagex";
         },
         {"manpagex: no such dataset", "nearest existing: ", "/manpages"},
         {"manpagez", "manpagey"}},
        {"overlapping sequences",
         [](const auto& f) {
             auto files = documents_of({{1, 2, 3}, {}, {4, 5, 6}});
             files.offsets = std::vector<std::int64_t>{0, 6, 4};
             files.write(f / "set");
             return f / "set";
         },
         {"set.idx: sequences 0 and 2 overlap", "byte 4 is in both"}},
        {"idx without bin",
         [](const auto& f) {
             write_file(f / "set.idx", documents_of({{1, 2}}).idx());
             return f / "set.idx";
         },
         {"set.bin: no such file", "set.idx is there"}},
        {"bin without idx",
         single("set.bin", binary),
         {"set.bin", "no index", "set.idx", "no llm.c shard"},
         {"nearest existing"}},
        {"a folder",
         [](const auto& f) { return f.path(); },
         {"is a folder", "dcp data import --out PREFIX"}},
        {"plain text",
         single("book.txt", "It was a dark and stormy night.\n"),
         {"book.txt: is plain text", "dcp data import --out PREFIX"}},
        {"text named .bin",
         single("set.bin", "It was a dark and stormy night.\n"),
         {"set.bin: is plain text", "dcp data import"}},
        {"gzip",
         single("page.1.gz", "\x1f\x8b\x08\x01\x02"),
         {"page.1.gz: is gzip data", "import"}},
        {"other binary", single("set", binary), {"neither a Megatron dataset", "llm.c shard"}},
        {"empty", single("set.bin", ""), {"set.bin: is empty"}},
        {"git-lfs pointer", single("set.bin", kLfsPointer), {"git-lfs pointer", "git lfs pull"}},
        {"llm.c header cut",
         single("set.bin", good.substr(0, 1000)),
         {"truncated", "1000 bytes", "1024"}},
        {"llm.c one byte short",
         single("set.bin", good.substr(0, good.size() - 1)),
         {"truncated", "1029 bytes", "3 uint16 tokens", "1030"}},
        {"llm.c trailing bytes",
         single("set.bin", good + "x"),
         {"wrong size", "1031 bytes", "1030"}},
        {"llm.c version",
         single("set.bin", shard_with(20240520, 2, 3)),
         {"version 2", "version 1", "20240520"}},
        {"llm.c llama version",
         single("set.bin", shard_with(20240801, 1, 3)),
         {"version 1", "version 7"}},
        {"llm.c no tokens", single("set.bin", shard_with(20240520, 1, 0)), {"counts 0 tokens"}},
        {"llm.c overflowed count",
         single("set.bin", shard_with(20240520, 1, -5)),
         {"counts -5 tokens"}},
        {"llm.c evaluation file",
         single("set.bin", shard_with(20240522, 1, 3)),
         {"evaluation file"}},
        {"llm.c checkpoint", single("set.bin", shard_with(20240326, 3, 3)), {"model checkpoint"}},
        {"llmq file", single("set.bin", "BIN.TOK\n" + good), {"llmq token file"}},
    };
}

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const DataError& error) {
        CHECK(error.exit_code() == kExitBadInput);
        return error.what();
    }
    return "no error at all";
}

TEST_CASE("every kind of bad dataset is refused by a message", "[unit]") {
    auto cases = bad_indexed_datasets();
    for (auto& other : bad_other_files()) {
        cases.push_back(other);
    }
    for (const BadFile& bad : cases) {
        DatasetFolder folder;
        const std::string path = bad.make(folder);
        const std::string message = message_of([&] { const TokenStore store(path); });
        INFO(bad.what << ": " << message);
        CHECK(message.find('\n') == std::string::npos);
        for (const std::string& word : bad.words) {
            CHECK_THAT(message, Catch::Contains(word));
        }
        for (const std::string& word : bad.absent) {
            CHECK_THAT(message, !Catch::Contains(word));
        }
    }
}

TEST_CASE("a good dataset is not refused", "[unit]") {
    // The table above starts from these: without this a check that always fails would pass it.
    DatasetFolder folder;
    CHECK_NOTHROW(TokenStore(spoilt([](auto&) {})(folder)));
    CHECK_NOTHROW(TokenStore(replaced(".idx", [](std::string b) { return b; })(folder), 10));
    CHECK_NOTHROW(TokenStore(single("s.bin", LlmcFile{.tokens = {1, 2, 3}}.bytes())(folder), 4));
}

TEST_CASE("tokens outside the vocabulary are found at open, with their place", "[unit]") {
    DatasetFolder folder;
    MegatronFiles files = documents_of({{5, 255}, {}, {1, 2, 3, 256}, {0}}, 4);
    files.write(folder / "set");
    CHECK_NOTHROW(TokenStore(folder / "set", 257));
    CHECK_THROWS_WITH(TokenStore(folder / "set", 256),
                      Catch::Contains("set.bin: token 256 at position 3 of document 2") &&
                          Catch::Contains("vocabulary of 256 (0 to 255)") &&
                          Catch::Contains("model.vocab"));
    files.sequences[3] = {-1};
    files.write(folder / "set");
    CHECK_THROWS_WITH(TokenStore(folder / "set", 257),
                      Catch::Contains("token -1 at position 0 of document 3") &&
                          Catch::Contains("not negative") && !Catch::Contains("model.vocab"));
    CHECK_THROWS_WITH(TokenStore(folder / "set", 255, "give another --vocab"),
                      Catch::Contains("give another --vocab") && !Catch::Contains("model.vocab"));
    CHECK_NOTHROW(TokenStore(folder / "set"));

    files = {};  // the second sequence of a document, stored before the first
    files.sequences = {{300, 1}, {2, 3, 4}};
    files.documents = {0, 2};
    files.lengths = std::vector<std::int64_t>{3, 2};
    files.offsets = std::vector<std::int64_t>{4, 0};
    files.write(folder / "set");
    CHECK_THROWS_WITH(TokenStore(folder / "set", 257),
                      Catch::Contains("token 300 at position 3 of document 0"));

    write_file(folder / "shard.bin", LlmcFile{.tokens = {1, 50257}}.bytes());
    CHECK_THROWS_WITH(TokenStore(folder / "shard.bin", 50257),
                      Catch::Contains("token 50257 at position 1 of document 0"));
}

TEST_CASE("distances of names", "[unit]") {
    CHECK(data::edit_distance("", "abc") == 3);
    CHECK(data::edit_distance("manpages", "manpagse") == 1);
    CHECK(data::edit_distance("kitten", "sitting") == 3);
    CHECK(data::nearest_names("pearl", {"perl", "zlib", "perl", "pear"}) ==
          std::vector<std::string>{"pear", "perl"});
}

}  // namespace
}  // namespace dcp::test
