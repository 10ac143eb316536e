// Owners of device memory and of pinned host memory, and copies that overlap with what the host
// does. Move-only; a moved-from or default-made one owns nothing.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "core/base/cuda/stream.hpp"

namespace dcp::cuda {

class DeviceBuffer {
public:
    DeviceBuffer() = default;  // owns nothing
    // MemoryBudgetError naming the buffer, its size and what the device has left; `purpose` is for
    // that message. Waits for the device when it is destroyed.
    DeviceBuffer(std::string_view purpose, std::size_t bytes);
    ~DeviceBuffer();
    DeviceBuffer(DeviceBuffer&& other) noexcept;
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;

    std::byte* data() const { return static_cast<std::byte*>(data_); }
    std::size_t size_bytes() const { return size_bytes_; }

private:
    void* data_ = nullptr;
    std::size_t size_bytes_ = 0;
};

// Host memory that the device reads and writes by itself: copies from and to it do not wait.
class PinnedBuffer {
public:
    PinnedBuffer() = default;  // owns nothing
    explicit PinnedBuffer(std::size_t bytes);
    ~PinnedBuffer();
    PinnedBuffer(PinnedBuffer&& other) noexcept;
    PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;

    std::byte* data() const { return static_cast<std::byte*>(data_); }
    std::size_t size_bytes() const { return size_bytes_; }

private:
    void* data_ = nullptr;
    std::size_t size_bytes_ = 0;
};

// Uploads through two pinned buffers in turn: upload() copies into one of them and returns while
// the device reads it; only the third upload in a row waits, for the first. For data that is loaded
// while the device computes.
class StagedUpload {
public:
    explicit StagedUpload(std::size_t largest_bytes);

    // Ordered on the stream; the source may be reused when the call returns. ShapeError for more
    // than largest_bytes.
    void upload(Stream& stream, void* target, std::span<const std::byte> source);

private:
    struct Slot {
        PinnedBuffer buffer;
        Event is_read;  // recorded behind the copy out of the buffer
    };
    std::array<Slot, 2> slots_;
    std::size_t next_ = 0;
};

}  // namespace dcp::cuda
