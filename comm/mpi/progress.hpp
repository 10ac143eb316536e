// The thread that moves pending messages while the program computes. Open MPI moves data only
// inside its own calls, so a message that nobody asks about does not travel; this thread asks.
//
// It sleeps for good while nothing is pending, and between two questions otherwise, so it takes a
// few per cent of one core at most. It only tests: everything is posted by the caller, whose order
// of calls is what MPI matches messages by.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "comm/mpi/messages.hpp"

namespace dcp::comm {

class ProgressThread {
public:
    ProgressThread() = default;
    ~ProgressThread();
    ProgressThread(const ProgressThread&) = delete;
    ProgressThread& operator=(const ProgressThread&) = delete;
    ProgressThread(ProgressThread&&) = delete;
    ProgressThread& operator=(ProgressThread&&) = delete;

    // From here to remove() the messages belong to the thread.
    void add(Messages& messages);
    // The caller has them back and may wait for them; no effect when they were never added.
    void remove(Messages& messages);

    // Nothing is tested any more: after an error, so that MPI can be left alone.
    void stop();

private:
    void run(const std::stop_token& stop);

    std::mutex mutex_;  // held while testing: a message has one owner at a time
    std::condition_variable_any work_;
    std::vector<Messages*> pending_;
    std::jthread thread_;  // started by the first add()
};

}  // namespace dcp::comm
