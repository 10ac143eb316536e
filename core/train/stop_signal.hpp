// SIGINT and SIGTERM ask a run to stop at the next iteration boundary; a second one ends the
// process at once, as if nothing was installed.
#pragma once

#include <csignal>

namespace dcp::train {

class StopSignal {
public:
    StopSignal();   // installs the handlers
    ~StopSignal();  // puts the earlier ones back
    StopSignal(const StopSignal&) = delete;
    StopSignal& operator=(const StopSignal&) = delete;

    int received() const;  // SIGINT or SIGTERM, 0 before one comes

private:
    struct sigaction earlier_interrupt_ {};
    struct sigaction earlier_terminate_ {};
};

}  // namespace dcp::train
