#include "core/base/copy.hpp"

#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp {

namespace {

void check_copy(const ConstTensor& tensor, std::size_t host_bytes) {
    if (!tensor.is_contiguous() || tensor.num_bytes() != static_cast<std::int64_t>(host_bytes)) {
        throw ShapeError(fmt::format("a copy of {} bytes to or from a tensor {} of {} bytes",
                                     host_bytes, tensor.shape().to_string(), tensor.num_bytes()));
    }
}

}  // namespace

void copy_to_device(Queue& queue, Tensor target, std::span<const std::byte> source) {
    check_copy(target, source.size());
    if (source.empty()) {
        return;
    }
    if (queue.stream() != nullptr) {
        queue.stream()->copy_to_device(target.data(), source.data(), source.size());
    } else {
        std::memcpy(target.data(), source.data(), source.size());
    }
}

void copy_to_host(Queue& queue, std::span<std::byte> target, ConstTensor source) {
    check_copy(source, target.size());
    if (target.empty()) {
        queue.synchronize();
    } else if (queue.stream() != nullptr) {
        queue.stream()->copy_to_host(target.data(), source.data(), target.size());
    } else {
        std::memcpy(target.data(), source.data(), target.size());
    }
}

double read_float64(Queue& queue, ConstTensor scalar) {
    std::array<std::byte, sizeof(double)> bytes{};
    copy_to_host(queue, bytes, scalar);
    return std::bit_cast<double>(bytes);
}

}  // namespace dcp
