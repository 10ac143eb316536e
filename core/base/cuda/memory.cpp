#include "core/base/cuda/memory.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/log.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"

namespace dcp::cuda {

DeviceBuffer::DeviceBuffer(std::string_view purpose, std::size_t bytes) : size_bytes_(bytes) {
    const cudaError_t error = cudaMalloc(&data_, bytes);
    if (error == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());  // reported here, so not by the next launch
        std::size_t free_bytes = 0;
        std::size_t total_bytes = 0;
        check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
        throw MemoryBudgetError(
            fmt::format("out of device memory: {} needs {}, but the GPU has {} of {} left: lower "
                        "memory.budget, "
                        "or end other programs that use this GPU",
                        purpose, format_bytes(static_cast<std::int64_t>(bytes)),
                        format_bytes(static_cast<std::int64_t>(free_bytes)),
                        format_bytes(static_cast<std::int64_t>(total_bytes))));
    }
    check(error, fmt::format("cudaMalloc of {}", purpose));
}

DeviceBuffer::~DeviceBuffer() {
    if (data_ != nullptr) {
        log_failure(cudaFree(data_), "cudaFree");
    }
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
}

PinnedBuffer::PinnedBuffer(std::size_t bytes) : size_bytes_(bytes) {
    check(cudaMallocHost(&data_, bytes), fmt::format("cudaMallocHost of {} bytes", bytes));
}

PinnedBuffer::~PinnedBuffer() {
    if (data_ != nullptr) {
        log_failure(cudaFreeHost(data_), "cudaFreeHost");
    }
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
}

StagedUpload::StagedUpload(std::size_t largest_bytes) {
    for (Slot& slot : slots_) {
        slot.buffer = PinnedBuffer(largest_bytes);
        slot.is_read = Event::create(EventKind::kOrder);
    }
}

void StagedUpload::upload(Stream& stream, void* target, std::span<const std::byte> source) {
    Slot& slot = slots_[next_];
    if (source.size() > slot.buffer.size_bytes()) {
        throw ShapeError(fmt::format("an upload of {} bytes through a staging buffer of {}",
                                     source.size(), slot.buffer.size_bytes()));
    }
    if (source.empty()) {
        return;
    }
    next_ = (next_ + 1) % slots_.size();
    slot.is_read.synchronize();
    std::memcpy(slot.buffer.data(), source.data(), source.size());
    check(cudaMemcpyAsync(target, slot.buffer.data(), source.size(), cudaMemcpyHostToDevice,
                          stream.get()),
          "cudaMemcpyAsync from pinned memory");
    slot.is_read.record(stream);
}

}  // namespace dcp::cuda
