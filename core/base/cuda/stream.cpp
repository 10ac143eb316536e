#include "core/base/cuda/stream.hpp"

#include <cstdio>
#include <utility>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/log.hpp"
#include "core/base/errors.hpp"

namespace dcp::cuda {

// Non-blocking: it does not wait for the default stream, which nobody uses.
Stream Stream::create() {
    Stream made;
    check(cudaStreamCreateWithFlags(&made.stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    return made;
}

Stream::~Stream() {
    if (stream_ != nullptr) {
        log_failure(cudaStreamDestroy(stream_), "cudaStreamDestroy");
    }
}

Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
}

void Stream::wait_for(const Event& event) {
    check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

void Stream::synchronize() {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

// From pageable memory CUDA stages the source before the call returns.
void Stream::copy_to_device(void* target, const void* source, std::size_t bytes) {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync to the device");
}

void Stream::copy_to_host(void* target, const void* source, std::size_t bytes) {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync to the host");
    synchronize();
}

Event Event::create(EventKind kind) {
    Event made;
    check(cudaEventCreateWithFlags(
              &made.event_, kind == EventKind::kTiming ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreate");
    return made;
}

Event::~Event() {
    if (event_ != nullptr) {
        log_failure(cudaEventDestroy(event_), "cudaEventDestroy");
    }
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
}

void Event::record(const Stream& stream) {
    check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

void Event::synchronize() const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

bool Event::is_done() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
        return false;
    }
    check(state, "cudaEventQuery");
    return true;
}

double Event::seconds_between(const Event& begin, const Event& end) {
    end.synchronize();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
}

cudaStream_t stream_of(const Queue& queue) {
    if (queue.stream() == nullptr) {
        throw ShapeError("a CUDA operation on a queue without a stream");
    }
    return static_cast<cudaStream_t>(queue.stream()->handle());
}

}  // namespace dcp::cuda
