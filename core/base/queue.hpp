// Queue: the device that work runs on, and the order in which it runs there. Every kernel takes one
// as its first argument.
//
// On a CPU, work is finished when the call returns, on up to `threads()` threads (the caller is one
// of them); no result depends on how many. On a GPU a queue is a stream: calls return at once and
// results exist when the queue gets there; synchronize() waits for that.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dcp {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

// Seconds and calls by operation; filled by the kernels when profiling is on (`dcp train
// --profile-ops`).
class OpProfile {
public:
    struct Entry {
        double seconds = 0;
        std::int64_t calls = 0;
        double flops = 0;  // of matrix products; 0 for everything else
    };
    void add(std::string_view op, double seconds, double flops);
    void clear() { entries_.clear(); }
    const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

private:
    std::map<std::string, Entry, std::less<>> entries_;
};

// A stream of a GPU as far as queues need it, so that code above need not know CUDA
// (core/base/cuda/stream.hpp has the one implementation).
class DeviceStream {
public:
    DeviceStream() = default;
    DeviceStream(const DeviceStream&) = delete;
    DeviceStream& operator=(const DeviceStream&) = delete;
    virtual ~DeviceStream() = default;

    virtual void* handle() const = 0;  // CUDA's own
    virtual void synchronize() = 0;
    // The source may be reused when the call returns, unless it is pinned memory: that must stay
    // as it is until the copy has run.
    virtual void copy_to_device(void* target, const void* source, std::size_t bytes) = 0;
    // Waits for the stream; the target is written when the call returns.
    virtual void copy_to_host(void* target, const void* source, std::size_t bytes) = 0;
};

class Queue {
public:
    // threads >= 1, or ShapeError. Copying is not allowed: a queue is a place, not a value.
    static Queue cpu(int threads) { return Queue(DeviceKind::kCpu, threads); }
    // The stream is not owned and must live as long as the queue.
    static Queue cuda(DeviceStream& stream);
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    Queue(Queue&&) noexcept = default;
    Queue& operator=(Queue&&) noexcept = default;
    ~Queue() = default;

    DeviceKind device() const { return device_; }
    int threads() const { return threads_; }
    DeviceStream* stream() const { return stream_; }  // null on a CPU
    void synchronize() const {                        // a CPU queue is always empty
        if (stream_ != nullptr) {
            stream_->synchronize();
        }
    }

    OpProfile* profile() const { return profile_; }
    void set_profile(OpProfile* profile) { profile_ = profile; }  // not owned; null: off

private:
    Queue(DeviceKind device, int threads);

    DeviceKind device_;
    int threads_;
    DeviceStream* stream_ = nullptr;
    OpProfile* profile_ = nullptr;
};

// Adds the time from its construction to its destruction to the queue's profile, if there is one.
class OpTimer {
public:
    OpTimer(const Queue& queue, std::string_view op, double flops = 0)
        : queue_(queue), op_(op), flops_(flops) {
        if (queue_.profile() != nullptr) {
            start_ = std::chrono::steady_clock::now();
        }
    }
    ~OpTimer() {
        if (queue_.profile() != nullptr) {
            queue_.synchronize();
            const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
            queue_.profile()->add(op_, spent.count(), flops_);
        }
    }
    OpTimer(const OpTimer&) = delete;
    OpTimer& operator=(const OpTimer&) = delete;
    OpTimer(OpTimer&&) = delete;
    OpTimer& operator=(OpTimer&&) = delete;

private:
    const Queue& queue_;
    std::string_view op_;
    double flops_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace dcp
