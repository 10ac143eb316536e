#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/model/safetensors.hpp"

namespace dcp::model {

namespace {

constexpr std::size_t kAlignBytes = 8;
constexpr std::size_t kChunkElems = 1 << 16;  // what is converted at a time

std::string header_of(const std::vector<TensorSpec>& specs, DType stored) {
    nlohmann::ordered_json header;
    header["__metadata__"] = {{"format", "pt"}};
    std::int64_t offset = 0;
    for (const TensorSpec& spec : specs) {
        const std::int64_t end =
            offset + spec.shape.num_elems() * static_cast<std::int64_t>(size_bytes(stored));
        nlohmann::ordered_json shape = nlohmann::ordered_json::array();
        for (int dim = 0; dim < spec.shape.num_dims(); ++dim) {
            shape.push_back(spec.shape[dim]);
        }
        auto& entry = header[spec.name];
        entry["dtype"] = stored == DType::kBFloat16 ? "BF16" : "F32";
        entry["shape"] = std::move(shape);
        entry["data_offsets"] = {offset, end};
        offset = end;
    }
    std::string text = header.dump();
    text.resize((text.size() + kAlignBytes - 1) / kAlignBytes * kAlignBytes, ' ');
    return text;
}

void write_elements(AtomicFile& file, std::span<const float> values, DType stored) {
    if (stored == DType::kFloat32) {
        file.write(std::as_bytes(values));
        return;
    }
    std::vector<BFloat16> chunk(std::min(values.size(), kChunkElems));
    while (!values.empty()) {
        const std::size_t count = std::min(values.size(), kChunkElems);
        std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count),
                       chunk.begin(), [](float value) { return BFloat16(value); });
        file.write(std::as_bytes(std::span(chunk).first(count)));
        values = values.subspan(count);
    }
}

}  // namespace

void write_safetensors(const std::string& path,
                       std::vector<TensorSpec> specs,
                       DType stored,
                       const TensorSource& source) {
    if (stored != DType::kFloat32 && stored != DType::kBFloat16) {
        throw ShapeError("weights are written as fp32 or bf16");
    }
    std::sort(specs.begin(), specs.end(),
              [](const TensorSpec& a, const TensorSpec& b) { return a.name < b.name; });
    const std::string header = header_of(specs, stored);
    const std::uint64_t length = header.size();
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(&length, 1)));
    file.write(header);
    for (const TensorSpec& spec : specs) {
        const std::span<const float> values = source(spec.name);
        if (static_cast<std::int64_t>(values.size()) != spec.shape.num_elems()) {
            throw ShapeError(fmt::format("tensor '{}' of shape {} came with {} elements", spec.name,
                                         spec.shape.to_string(), values.size()));
        }
        write_elements(file, values, stored);
    }
    file.commit();
}

}  // namespace dcp::model
