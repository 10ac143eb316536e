// Owners of streams and events. Move-only; a moved-from or default-made one owns nothing.
// Destructors report what goes wrong on standard error and never throw.
//
// There is no default stream: every operation names its stream (checked by tests/house).
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/base/queue.hpp"

namespace dcp::cuda {

class Event;

class Stream final : public DeviceStream {
public:
    Stream() = default;  // owns nothing
    static Stream create();
    ~Stream() override;
    Stream(Stream&& other) noexcept;
    Stream& operator=(Stream&& other) noexcept;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    cudaStream_t get() const { return stream_; }
    explicit operator bool() const { return stream_ != nullptr; }

    // Work issued to this stream from now on starts after what the event has recorded.
    void wait_for(const Event& event);

    void* handle() const override { return stream_; }
    void synchronize() override;
    void copy_to_device(void* target, const void* source, std::size_t bytes) override;
    void copy_to_host(void* target, const void* source, std::size_t bytes) override;

private:
    cudaStream_t stream_ = nullptr;
};

enum class EventKind : std::uint8_t { kOrder, kTiming };

class Event {
public:
    Event() = default;  // owns nothing
    static Event create(EventKind kind);
    ~Event();
    Event(Event&& other) noexcept;
    Event& operator=(Event&& other) noexcept;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    cudaEvent_t get() const { return event_; }
    explicit operator bool() const { return event_ != nullptr; }

    void record(const Stream& stream);
    void synchronize() const;  // waits for what was recorded last; at once if nothing was
    bool is_done() const;      // the same without waiting

    // Between two recorded events of kind kTiming; waits for the later one.
    static double seconds_between(const Event& begin, const Event& end);

private:
    cudaEvent_t event_ = nullptr;
};

// The stream of a queue whose device is a GPU (ShapeError for another).
cudaStream_t stream_of(const Queue& queue);

}  // namespace dcp::cuda
