#include "comm/mpi/progress.hpp"

#include <chrono>

namespace dcp::comm {

namespace {

// Time between two questions. A link of 10 GB/s moves half a megabyte meanwhile, less than its
// buffers hold; a question costs about a microsecond.
constexpr std::chrono::microseconds kPause{50};

}  // namespace

ProgressThread::~ProgressThread() {
    stop();
}

void ProgressThread::add(Messages& messages) {
    const std::scoped_lock lock(mutex_);
    pending_.push_back(&messages);
    if (!thread_.joinable()) {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    work_.notify_one();
}

void ProgressThread::remove(Messages& messages) {
    const std::scoped_lock lock(mutex_);
    std::erase(pending_, &messages);
}

void ProgressThread::stop() {
    if (thread_.joinable()) {
        thread_.request_stop();
        thread_.join();
    }
}

void ProgressThread::run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, stop, [this] { return !pending_.empty(); })) {
        std::erase_if(pending_, [](Messages* messages) { return messages->test(); });
        lock.unlock();
        std::this_thread::sleep_for(kPause);
        lock.lock();
        if (stop.stop_requested()) {
            return;
        }
    }
}

}  // namespace dcp::comm
