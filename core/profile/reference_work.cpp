#include "core/profile/reference_work.hpp"

#include <algorithm>
#include <span>

#include "comm/control.hpp"
#include "core/profile/samples.hpp"

namespace dcp::profile {

void ReferenceWork::set(const plan::ProfileReference& reference) {
    reference_ = reference;
    slownesses_.clear();
    if (reference_.tokens == 0) {
        return;
    }
    const bool is_new = reference_.seconds == 0;
    if (is_new) {
        pass_.run_reference(reference_.tokens, 1);  // warms up
        reference_.seconds = std::max(pass_.run_reference(reference_.tokens, 1), 1e-9);
        comm::all_reduce_values(queue_, world_, std::span(&reference_.seconds, 1),
                                comm::ReduceOp::kMax);
    }
    look_for(0);
    if (is_new) {
        reference_.seconds *= median(slowness_of_ranks());
    }
}

void ReferenceWork::look_for(double seconds) {
    constexpr double kLeast = 0.003;  // long beside the clock
    constexpr double kShare = 0.05;
    look_seconds_ = std::max(kLeast, kShare * seconds);
}

// Whatever ran before, or a pause, left caches to be filled anew.
double ReferenceWork::slowness() {
    if (reference_.tokens == 0) {
        return 1;
    }
    pass_.run_reference(reference_.tokens, 1);
    return look(look_seconds_);
}

// Work of so many seconds without a pause: who has paused is served first where programs compete.
double ReferenceWork::look(double seconds) {
    double sum = 0;
    int passes = 0;
    do {
        sum += pass_.run_reference(reference_.tokens, 1);
        ++passes;
    } while (sum < seconds);
    return sum / passes / reference_.seconds;
}

std::vector<double> ReferenceWork::slowness_of_ranks() {
    constexpr int kRepeats = 9;
    constexpr double kSeconds = 0.03;  // several turns, where other programs have some
    std::vector<double> own;
    for (int repeat = 0; repeat <= kRepeats; ++repeat) {
        const double now = look(kSeconds);
        if (repeat > 0) {  // the first warms up
            own.push_back(now);
        }
    }
    return comm::all_gather_value(queue_, world_, median(own));
}

double ReferenceWork::typical_slowness() const {
    return slownesses_.empty() ? 1 : median(slownesses_);
}

}  // namespace dcp::profile
