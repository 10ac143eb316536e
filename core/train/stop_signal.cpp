#include "core/train/stop_signal.hpp"

namespace dcp::train {

namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) {
    received_signal = signal;
}

}  // namespace

StopSignal::StopSignal() {
    received_signal = 0;
    struct sigaction action {};
    action.sa_handler = remember;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(SIGINT, &action, &earlier_interrupt_);
    sigaction(SIGTERM, &action, &earlier_terminate_);
}

StopSignal::~StopSignal() {
    sigaction(SIGINT, &earlier_interrupt_, nullptr);
    sigaction(SIGTERM, &earlier_terminate_, nullptr);
}

int StopSignal::received() const {
    return received_signal;
}

}  // namespace dcp::train
