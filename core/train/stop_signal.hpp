// SIGINT and SIGTERM ask a run to stop at the next iteration boundary; a second one ends the
// process at once, as if nothing was installed. The handler says so on stderr, because an iteration
// may last minutes.
#pragma once

#include <csignal>

namespace dcp::train {

class StopSignal {
public:
    // Installs the handlers. One process of a run should say what it will do.
    explicit StopSignal(bool speaks);
    ~StopSignal();  // puts the earlier handlers back
    StopSignal(const StopSignal&) = delete;
    StopSignal& operator=(const StopSignal&) = delete;

    int received() const;  // SIGINT or SIGTERM, 0 before one comes
    bool requested() const { return received() != 0; }
    const char* name() const;  // "SIGTERM"; meaningful when requested

private:
    struct sigaction earlier_interrupt_ {};
    struct sigaction earlier_terminate_ {};
};

}  // namespace dcp::train
