#include "apps/dcp/waiting_threads.hpp"

#include <cstdlib>

#include <unistd.h>

namespace dcp {

void let_waiting_threads_sleep(char** argv) {
    // NOLINTBEGIN(concurrency-mt-unsafe): called before any thread exists
    if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) {
        return;
    }
    if (::setenv("OMP_WAIT_POLICY", "PASSIVE", 1) == 0) {
        ::execv("/proc/self/exe", argv);  // returns only where this cannot be done: go on spinning
    }
    // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace dcp
