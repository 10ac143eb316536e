// Which thread signals interrupt.
#pragma once

#include <semaphore>
#include <thread>

namespace dcp {

// While it lives, the signals that ask a process to stop (SIGINT, SIGTERM) reach a thread that does
// nothing else; handlers and default actions stay as they are. Single-precision products of oneDNN
// 2.6 keep data beyond the stack's red zone, which a handler on the same thread would overwrite.
// To be made before any other thread exists: threads inherit what they block.
class SignalThread {
public:
    SignalThread();
    ~SignalThread();
    SignalThread(const SignalThread&) = delete;
    SignalThread& operator=(const SignalThread&) = delete;

private:
    std::binary_semaphore end_{0};
    std::thread thread_;
};

}  // namespace dcp
