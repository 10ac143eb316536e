// The safetensors container, read and written: values of every type of weight, and every way in
// which a file can be broken.
#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/dataset_files.hpp"
#include <catch2/catch.hpp>
#include <sys/resource.h>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/model/safetensors.hpp"

using namespace dcp;
using namespace dcp::model;

namespace {

std::size_t num_files(const test::DatasetFolder& folder) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

// length, header, data: the container by hand.
std::string container(const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + data;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), std::data(values), bytes.size());
    return bytes;
}

std::string error_of(const std::string& bytes) {
    const test::DatasetFolder folder;
    const std::string path = folder / "a.safetensors";
    test::write_file(path, bytes);
    try {
        const SafetensorsFile file(path);
    } catch (const DataError& error) {
        const std::string message = error.what();
        REQUIRE(message.find(path) == 0);
        return message.substr(path.size());
    }
    return "no error";
}

std::vector<float> read(const SafetensorsFile& file, const std::string& name) {
    const StoredTensor& tensor = file.tensors().at(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()),
                              std::numeric_limits<float>::quiet_NaN());
    read_as_float(tensor, name, values);
    return values;
}

}  // namespace

TEST_CASE("what another program wrote is read, of every floating type", "[unit][weights]") {
    const test::DatasetFolder folder;
    const std::string path = folder / "a.safetensors";
    // Header of 1 byte more than a multiple of 8: the tensors are not aligned, which is legal.
    std::string header =
        R"({"__metadata__":{"format":"pt"},"d":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
        R"("f":{"dtype":"F32","shape":[1,2],"data_offsets":[16,24]},)"
        R"("h":{"dtype":"F16","shape":[7],"data_offsets":[24,38]},)"
        R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[38,42]},)"
        R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[42,42]},)"
        R"("s":{"dtype":"F32","shape":[],"data_offsets":[42,46]},)"
        R"("i":{"dtype":"I64","shape":[1],"data_offsets":[46,54]}})";
    header.resize((header.size() + 7) / 8 * 8 + 1, ' ');
    test::write_file(
        path, container(header, raw<double>({1.5, -2e300}) + raw<float>({3.25F, -0.0F}) +
                                    raw<std::uint16_t>(
                                        {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0x7e00}) +
                                    raw<std::uint16_t>({0x3f80, 0xc040}) + raw<float>({7.0F}) +
                                    raw<std::int64_t>({9})));
    const SafetensorsFile file(path);
    CHECK(read(file, "d") == std::vector<float>{1.5F, -std::numeric_limits<float>::infinity()});
    CHECK(read(file, "f") == std::vector<float>{3.25F, -0.0F});
    CHECK(std::signbit(read(file, "f")[1]));
    const std::vector<float> half = read(file, "h");
    CHECK(half[0] == 1.0F);
    CHECK(half[1] == -2.0F);
    CHECK(half[2] == std::ldexp(1.0F, -24));  // the smallest
    CHECK(half[3] == -std::ldexp(1023.0F, -24));
    CHECK(half[4] == 65504.0F);  // the largest
    CHECK(std::isinf(half[5]));
    CHECK(std::isnan(half[6]));
    CHECK(read(file, "b") == std::vector<float>{1.0F, -3.0F});
    CHECK(read(file, "e").empty());
    CHECK(read(file, "s") == std::vector<float>{7.0F});
    CHECK(file.tensors().at("f").shape == std::vector<std::int64_t>{1, 2});
    CHECK_THROWS_WITH(
        read(file, "i"),
        Catch::EndsWith("a.safetensors: tensor 'i' has dtype I64; weights can be read from "
                        "F32, BF16, F16 and F64"));
    std::vector<float> wrong(3);
    CHECK_THROWS_AS(read_as_float(file.tensors().at("f"), "f", wrong), ShapeError);
}

TEST_CASE("what is written is exactly what the reference writer writes", "[unit][weights]") {
    const test::DatasetFolder folder;
    const std::string path = folder / "a.safetensors";
    const std::vector<float> a{1, 2, 3, 4, 5, 6};
    const std::vector<float> b{-7.5F};
    const auto source = [&](const std::string& name) {
        return std::span<const float>(name == "a" ? a : b);
    };
    write_safetensors(path, {{"b", {1}}, {"a", {2, 3}}}, DType::kFloat32, source);
    const std::string header =
        R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})";
    const std::size_t padded = (header.size() + 7) / 8 * 8;
    CHECK(test::read_file(path) == container(header + std::string(padded - header.size(), ' '),
                                             raw<float>({1, 2, 3, 4, 5, 6, -7.5F})));
    CHECK(num_files(folder) == 1);

    // bf16, over the size of a conversion chunk and with a tail
    std::vector<float> many((1 << 16) + 3);
    for (std::size_t index = 0; index < many.size(); ++index) {
        many[index] = 1.0F + static_cast<float>(index) * 0x1p-20F;
    }
    write_safetensors(path, {{"m", {static_cast<std::int64_t>(many.size())}}}, DType::kBFloat16,
                      [&](const std::string&) { return std::span<const float>(many); });
    const SafetensorsFile file(path);
    CHECK(file.tensors().at("m").dtype == "BF16");
    const std::vector<float> back = read(file, "m");
    std::size_t differing = 0;
    for (std::size_t index = 0; index < many.size(); ++index) {
        differing += back[index] != static_cast<float>(BFloat16(many[index])) ? 1 : 0;
    }
    CHECK(differing == 0);
    CHECK_THROWS_AS(write_safetensors(path, {{"a", {7}}}, DType::kFloat32, source), ShapeError);
    CHECK(SafetensorsFile(path).tensors().count("m") == 1);  // the old file is untouched
    CHECK(num_files(folder) == 1);
}

TEST_CASE("broken files say what is wrong", "[unit][weights]") {
    const std::string four = raw<float>({1});
    const auto one = [&](const std::string& entry) {
        return error_of(container("{\"w\":" + entry + "}", four));
    };
    CHECK(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 134\n") ==
          ": is a git-lfs pointer, not the weights: run `git lfs pull` in its repository");
    CHECK(error_of("") == ": has 0 bytes, too short for a safetensors file");
    CHECK(error_of("abc") == ": has 3 bytes, too short for a safetensors file");
    CHECK(error_of("<html>a page of an error</html>") ==
          ": header too large (2333214717368363068 bytes, the format allows 100000000): not a "
          "safetensors file");
    CHECK(error_of(container("{}", "").substr(0, 9)) ==
          ": cut short: its header has 2 bytes, 1 are there");
    CHECK(error_of(container("[1]", "")) ==
          ": the header does not start with '{': not a safetensors file");
    CHECK(error_of(container("", "")) ==
          ": the header does not start with '{': not a safetensors file");
    CHECK(error_of(container("{\"a\":", "")).find(": the header is not JSON: ") == 0);
    CHECK(error_of(container("{\"\xff\":1}", "")).find(": the header is not JSON: ") == 0);
    CHECK(error_of(container(R"({"a":{"b":[[[[1]]]]}})", "")) ==
          ": the header is nested deeper than the format allows");
    const std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
    CHECK(error_of(container("{" + w + "}", four)) == "no error");
    CHECK(error_of(container("{" + w + "," + w + "}", four)) == ": the header has 'w' twice");
    CHECK(error_of(container("{" + w + R"(,"__metadata__":{"a":1}})", four)) ==
          ": __metadata__ must map texts to texts");
    CHECK(error_of(container("{" + w + "}", four + "xyz")) == ": 3 bytes follow the last tensor");
    CHECK(error_of(container("{" + w + "}", "abc")) ==
          ": tensor 'w' ends at byte 4 of the data, which has 3: cut short?");
    CHECK(error_of(container("{" + w + R"(,"x":{"dtype":"U8","shape":[1],"data_offsets":[6,7]}})",
                             four + "abc")) ==
          ": tensor 'x' starts at byte 6 of the data, leaving a hole at byte 4");
    CHECK(error_of(container("{" + w + R"(,"x":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                             four + "a")) ==
          ": tensor 'x' starts at byte 3 of the data, inside the tensor that ends at byte 4");
    CHECK(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})") ==
          ": tensor 'w': F32 [2] needs 8 bytes, its data_offsets are [0, 4]");
    CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})") ==
          ": tensor 'w': F32 [1] needs 4 bytes, its data_offsets are [4, 0]");
    CHECK(one(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})") ==
          ": tensor 'w' has the unknown dtype 'F31'");
    CHECK(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})") ==
          ": tensor 'w' has the shape [4294967296,4294967296], which overflows");
    CHECK(one(R"({"dtype":"F32","shape":[0,9223372036854775807,4],"data_offsets":[0,0]})") ==
          ": tensor 'w' has the shape [0,9223372036854775807,4], which overflows");
    CHECK(one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]})") ==
          ": tensor 'w' has the shape [18446744073709551615], which overflows");
    const std::string needs = ": tensor 'w' needs dtype, shape and data_offsets [begin, end]";
    CHECK(one(R"({"dtype":"F32","shape":[1],"offsets":[0,4]})") == needs);
    CHECK(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})") == needs);
    CHECK(one(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})") == needs);
    CHECK(one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})") == needs);
    CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})") == needs);
    CHECK(one("7") == needs);
}

TEST_CASE("a file appears whole or not at all", "[unit][base]") {
    const test::DatasetFolder folder;
    const std::string path = folder / "a.txt";
    {
        AtomicFile file(path);
        file.write("half");
    }
    CHECK(num_files(folder) == 0);
    write_file_atomically(path, "old");
    CHECK_THROWS_WITH(AtomicFile(folder / "no/such/place"),
                      folder / "no/such/place" + ": cannot create: No such file or directory");

    CHECK_NOTHROW(require_output_place("--out", ""));
    CHECK_NOTHROW(require_output_place("--out", "here.txt"));
    CHECK_NOTHROW(require_output_place("--out", path));
    CHECK_THROWS_WITH(require_output_place("--out", folder / "no/place"),
                      "--out " + (folder / "no/place") + ": there is no folder " + (folder / "no") +
                          ": make it first");
    CHECK_THROWS_WITH(require_output_place("--out", folder.path()),
                      "--out " + folder.path() +
                          ": not a regular file, so it cannot be replaced by one: name another "
                          "file");

    const std::string other = folder / "b.txt";
    std::filesystem::create_symlink(path, folder / "link");
    const auto require_different = [&](const std::string& a, const std::string& b) {
        require_different_files(std::array<NamedFile, 3>{{{"--a", a}, {"--none", ""}, {"--b", b}}});
    };
    CHECK_NOTHROW(require_different(path, other));
    CHECK_NOTHROW(require_different("", ""));
    for (const std::string& same : {path, folder / "./a.txt", folder / "link"}) {
        CHECK_THROWS_WITH(require_different(path, same),
                          "--a and --b name one file, " + same +
                              ": the second would replace the first; name another");
    }
    CHECK_THROWS_AS(
        require_different(
            other,
            folder / "../" + std::filesystem::path(folder.path()).filename().string() + "/b.txt"),
        ConfigError);
    std::filesystem::remove(folder / "link");

    // What a full disk does, by a limit that any process can set itself.
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string message;
    try {
        write_file_atomically(path, std::string(2000, 'x'));
    } catch (const IoError& error) {
        message = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old_handler);
    CHECK(message == path + ": cannot write: File too large");
    CHECK(test::read_file(path) == "old");
    CHECK(num_files(folder) == 1);
}
