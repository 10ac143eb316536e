#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/errors.hpp"
#include "core/model/safetensors.hpp"

namespace dcp::model {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
constexpr std::size_t kLengthBytes = 8;
constexpr int kMaxNesting = 4;  // header, entry, shape or offsets: nothing lies deeper

// Bytes of an element, 0 for a type that this version of the format does not have.
std::int64_t element_bytes(std::string_view dtype) {
    constexpr std::array<std::pair<std::string_view, int>, 16> kTypes{{{"F64", 8},
                                                                       {"F32", 4},
                                                                       {"F16", 2},
                                                                       {"BF16", 2},
                                                                       {"I64", 8},
                                                                       {"I32", 4},
                                                                       {"I16", 2},
                                                                       {"I8", 1},
                                                                       {"U64", 8},
                                                                       {"U32", 4},
                                                                       {"U16", 2},
                                                                       {"U8", 1},
                                                                       {"BOOL", 1},
                                                                       {"F8_E4M3", 1},
                                                                       {"F8_E5M2", 1},
                                                                       {"F8_E8M0", 1}}};
    for (const auto& [known, bytes] : kTypes) {
        if (known == dtype) {
            return bytes;
        }
    }
    return 0;
}

// Parses strictly: the library alone would keep the last of two equal keys.
Json parse_header(const std::string& path, std::string_view text) {
    std::vector<std::set<std::string>> seen;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start ||
            event == Json::parse_event_t::array_start) {
            if (depth >= kMaxNesting) {
                throw DataError(path + ": the header is nested deeper than the format allows");
            }
            seen.emplace_back();
        } else if (event == Json::parse_event_t::object_end ||
                   event == Json::parse_event_t::array_end) {
            seen.pop_back();
        } else if (event == Json::parse_event_t::key) {
            const auto key = parsed.get<std::string>();
            if (!seen.back().insert(key).second) {
                throw DataError(fmt::format("{}: the header has '{}' twice", path, key));
            }
        }
        return true;
    };
    try {
        return Json::parse(text, watch);
    } catch (const Json::exception& error) {
        throw DataError(fmt::format("{}: the header is not JSON: {}", path, error.what()));
    }
}

std::string_view header_text(const MappedFile& file) {
    const std::span<const std::byte> bytes = file.bytes();
    if (is_git_lfs_pointer(bytes)) {
        throw DataError(file.path() +
                        ": is a git-lfs pointer, not the weights: run `git lfs pull` in its "
                        "repository");
    }
    if (bytes.size() < kLengthBytes) {
        throw DataError(fmt::format("{}: has {} bytes, too short for a safetensors file",
                                    file.path(), bytes.size()));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    if (length > kMaxHeaderBytes) {
        throw DataError(fmt::format(
            "{}: header too large ({} bytes, the format allows {}): not a safetensors file",
            file.path(), length, kMaxHeaderBytes));
    }
    if (length > bytes.size() - kLengthBytes) {
        throw DataError(fmt::format("{}: cut short: its header has {} bytes, {} are there",
                                    file.path(), length, bytes.size() - kLengthBytes));
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                                static_cast<std::size_t>(length));
    if (text.empty() || text.front() != '{') {
        throw DataError(file.path() +
                        ": the header does not start with '{': not a safetensors file");
    }
    return text;
}

// Reads one entry; `what` is "FILE: tensor 'NAME'".
StoredTensor parse_entry(const Json& entry,
                         const std::string& what,
                         std::span<const std::byte> buffer) {
    const auto is_size = [](const Json& item) { return item.is_number_unsigned(); };
    const auto is_sizes = [&](const Json& list) {
        return list.is_array() && std::all_of(list.begin(), list.end(), is_size);
    };
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !is_sizes(entry["shape"]) || !entry.contains("data_offsets") ||
        !is_sizes(entry["data_offsets"]) || entry["data_offsets"].size() != 2) {
        throw DataError(what + " needs dtype, shape and data_offsets [begin, end]");
    }
    StoredTensor tensor;
    tensor.dtype = entry["dtype"].get<std::string>();
    std::int64_t bytes = element_bytes(tensor.dtype);
    if (bytes == 0) {
        throw DataError(fmt::format("{} has the unknown dtype '{}'", what, tensor.dtype));
    }
    bool is_empty = false;
    bool overflows = false;
    for (const Json& dim : entry["shape"]) {
        const auto size = dim.get<std::uint64_t>();
        overflows = overflows ||
                    size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        tensor.shape.push_back(static_cast<std::int64_t>(size));
        is_empty = is_empty || size == 0;
        // An empty tensor may have any other dimensions, but they must not overflow either.
        overflows = overflows || __builtin_mul_overflow(
                                     bytes, std::max<std::int64_t>(tensor.shape.back(), 1), &bytes);
    }
    if (overflows) {
        throw DataError(
            fmt::format("{} has the shape {}, which overflows", what, entry["shape"].dump()));
    }
    const auto begin = entry["data_offsets"][0].get<std::uint64_t>();
    const auto end = entry["data_offsets"][1].get<std::uint64_t>();
    const auto needed = static_cast<std::uint64_t>(is_empty ? 0 : bytes);
    if (begin > end || end - begin != needed) {
        throw DataError(fmt::format("{}: {} {} needs {} bytes, its data_offsets are [{}, {}]", what,
                                    tensor.dtype, entry["shape"].dump(), needed, begin, end));
    }
    if (end > buffer.size()) {
        throw DataError(fmt::format("{} ends at byte {} of the data, which has {}: cut short?",
                                    what, end, buffer.size()));
    }
    tensor.bytes =
        buffer.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(needed));
    return tensor;
}

void check_metadata(const Json& metadata, const std::string& path) {
    bool fits = metadata.is_object();
    for (const Json& value : metadata) {
        fits = fits && value.is_string();
    }
    if (!fits) {
        throw DataError(path + ": __metadata__ must map texts to texts");
    }
}

// The tensors must cover the data exactly: each byte in one of them.
void check_coverage(const StoredTensors& tensors,
                    const std::string& path,
                    std::span<const std::byte> buffer) {
    struct Range {
        std::size_t begin;
        std::size_t end;
        const std::string* name;
    };
    std::vector<Range> ranges;
    for (const auto& [name, tensor] : tensors) {
        const auto begin = static_cast<std::size_t>(tensor.bytes.data() - buffer.data());
        ranges.push_back({begin, begin + tensor.bytes.size(), &name});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::size_t covered = 0;
    for (const Range& range : ranges) {
        if (range.begin != covered) {
            throw DataError(fmt::format(
                "{}: tensor '{}' starts at byte {} of the data, {} at byte {}", path, *range.name,
                range.begin,
                range.begin > covered ? "leaving a hole" : "inside the tensor that ends", covered));
        }
        covered = range.end;
    }
    if (covered != buffer.size()) {
        throw DataError(
            fmt::format("{}: {} bytes follow the last tensor", path, buffer.size() - covered));
    }
}

float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1fU;
    const std::uint32_t fraction = half & 0x3ffU;
    if (exponent == 0) {  // zero, or a multiple of the smallest half
        const float size = static_cast<float>(fraction) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(size));
    }
    // Exponents are biased by 15 in a half, by 127 in a float; infinities and NaN use the largest.
    const std::uint32_t biased = exponent == 0x1f ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | biased << 23 | fraction << 13);
}

// Through memcpy: nothing promises that a foreign file aligns its tensors.
template <class Element, class Convert>
void convert_all(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
    for (std::size_t index = 0; index < out.size(); ++index) {
        Element element;
        std::memcpy(&element, bytes.data() + index * sizeof(Element), sizeof(Element));
        out[index] = convert(element);
    }
}

}  // namespace

std::int64_t StoredTensor::num_elems() const {
    // A dtype without a size was refused when the file was opened.
    return static_cast<std::int64_t>(bytes.size()) /
           std::max<std::int64_t>(element_bytes(dtype), 1);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
    const std::string_view text = header_text(file_);
    const Json header = parse_header(path, text);
    std::span<const std::byte> buffer = file_.bytes().subspan(kLengthBytes + text.size());
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") {
            check_metadata(entry, path);
        } else {
            tensors_[name] = parse_entry(entry, fmt::format("{}: tensor '{}'", path, name), buffer);
            tensors_[name].file = path;
        }
    }
    check_coverage(tensors_, path, buffer);
}

void read_as_float(const StoredTensor& tensor, const std::string& name, std::span<float> out) {
    if (static_cast<std::int64_t>(out.size()) != tensor.num_elems()) {
        throw ShapeError(fmt::format("tensor '{}' has {} elements, asked for {}", name,
                                     tensor.num_elems(), out.size()));
    }
    if (out.empty()) {
        return;  // memcpy must not see the null pointer that an empty span may hold
    }
    if (tensor.dtype == "F32") {
        std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    } else if (tensor.dtype == "BF16") {
        convert_all<std::uint16_t>(tensor.bytes, out, [](std::uint16_t bits) {
            return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
        });
    } else if (tensor.dtype == "F16") {
        convert_all<std::uint16_t>(tensor.bytes, out, half_to_float);
    } else if (tensor.dtype == "F64") {
        convert_all<double>(tensor.bytes, out,
                            [](double value) { return static_cast<float>(value); });
    } else {
        throw DataError(fmt::format(
            "{}: tensor '{}' has dtype {}; weights can be read from F32, BF16, F16 and F64",
            tensor.file, name, tensor.dtype));
    }
}

}  // namespace dcp::model
