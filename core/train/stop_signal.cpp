#include "core/train/stop_signal.hpp"

#include <cerrno>
#include <string_view>

#include <unistd.h>

namespace dcp::train {

namespace {

volatile std::sig_atomic_t received_signal = 0;
volatile std::sig_atomic_t handler_speaks = 0;

// Only write(2): whatever formats or buffers must not run inside a handler.
void say(std::string_view text) {
    const int before = errno;
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    errno = before;
}

void remember(int signal) {
    const bool is_first = received_signal == 0;
    received_signal = signal;
    if (is_first && handler_speaks != 0) {
        say(signal == SIGINT
                ? "dcp: SIGINT: ending after this iteration; a second one ends at once\n"
                : "dcp: SIGTERM: ending after this iteration; a second one ends at once\n");
    }
}

}  // namespace

StopSignal::StopSignal(bool speaks) {
    received_signal = 0;
    handler_speaks = speaks ? 1 : 0;
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

const char* StopSignal::name() const {
    return received() == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace dcp::train
