#include "core/train/stop_signal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
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

bool StopSignal::is_first_of_launcher() {
    constexpr std::array kRankVariables{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    return std::all_of(kRankVariables.begin(), kRankVariables.end(), [](const char* variable) {
        const char* rank = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): read only
        return rank == nullptr || std::string_view(rank) == "0";
    });
}

int StopSignal::received() const {
    return received_signal;
}

}  // namespace dcp::train
