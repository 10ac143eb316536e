// Queue: the device that work runs on, and the order in which it runs there. Every kernel takes one
// as its first argument.
//
// On a CPU, work is finished when the call returns, on up to `threads()` threads (the caller is one
// of them); no result depends on how many. On a GPU a queue is a stream: calls return at once and
// results exist when the queue gets there; synchronize() waits for that.
#pragma once

#include <chrono>
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

class Queue {
public:
    // threads >= 1, or ShapeError. Copying is not allowed: a queue is a place, not a value.
    static Queue cpu(int threads) { return Queue(DeviceKind::kCpu, threads); }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    Queue(Queue&&) noexcept = default;
    Queue& operator=(Queue&&) noexcept = default;
    ~Queue() = default;

    DeviceKind device() const { return device_; }
    int threads() const { return threads_; }
    void synchronize() const {}  // a CPU queue is always empty

    OpProfile* profile() const { return profile_; }
    void set_profile(OpProfile* profile) { profile_ = profile; }  // not owned; null: off

private:
    Queue(DeviceKind device, int threads);

    DeviceKind device_;
    int threads_;
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
