// Seconds that the device spends between two points of a stream, without making anybody wait.
#pragma once

#include "core/base/cuda/stream.hpp"

namespace dcp::cuda {

class StreamTimer {
public:
    StreamTimer()
        : begin_(Event::create(EventKind::kTiming)), end_(Event::create(EventKind::kTiming)) {}

    void start(const Stream& stream) { begin_.record(stream); }
    void stop(const Stream& stream) { end_.record(stream); }
    // Of the last start and stop; waits for the stop.
    double seconds() const { return Event::seconds_between(begin_, end_); }

private:
    Event begin_;
    Event end_;
};

}  // namespace dcp::cuda
