// The safetensors container: an 8-byte length, a JSON header (name -> type, shape, byte range), the
// bytes of the tensors without gaps. Reading maps the file and checks all of it before a tensor is
// handed out; a file that is cut short, is a git-lfs pointer, or has holes or trailing bytes is a
// DataError that says so. Types of weights: F32, BF16, F16 and F64; others may stand in a file but
// cannot be read as numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/mapped_file.hpp"
#include "core/base/tensor.hpp"

namespace dcp::model {

struct StoredTensor {
    std::string dtype;                // as the format spells it: "F32"
    std::vector<std::int64_t> shape;  // any number of dimensions
    std::span<const std::byte> bytes;
    std::string file;  // for messages
    std::int64_t num_elems() const;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

class SafetensorsFile {
public:
    explicit SafetensorsFile(const std::string& path);
    const StoredTensors& tensors() const { return tensors_; }
    const std::string& path() const { return file_.path(); }

private:
    MappedFile file_;
    StoredTensors tensors_;
};

// `out` has num_elems() elements. DataError naming `name` for a type that is not floating point.
void read_as_float(const StoredTensor& tensor, const std::string& name, std::span<float> out);

struct TensorSpec {
    std::string name;
    Shape shape;
};

// Hands out the elements of one tensor; valid until the next call.
using TensorSource = std::function<std::span<const float>(const std::string& name)>;

// Writes the tensors to one file, in order of their names as the reference writer does, with the
// metadata {"format": "pt"} that transformers asks for. `stored` is fp32 or bf16. Atomic; IoError.
void write_safetensors(const std::string& path,
                       std::vector<TensorSpec> specs,
                       DType stored,
                       const TensorSource& source);

}  // namespace dcp::model
