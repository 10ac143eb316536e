#include "apps/dcp/signal_thread.hpp"

#include <csignal>

namespace dcp {

SignalThread::SignalThread() : thread_([this] { end_.acquire(); }) {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stops, nullptr);
}

SignalThread::~SignalThread() {
    end_.release();
    thread_.join();
}

}  // namespace dcp
