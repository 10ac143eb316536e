#include "core/base/queue.hpp"

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp {

void OpProfile::add(std::string_view op, double seconds, double flops) {
    auto found = entries_.find(op);
    if (found == entries_.end()) {
        found = entries_.emplace(std::string(op), Entry{}).first;
    }
    found->second.seconds += seconds;
    found->second.calls += 1;
    found->second.flops += flops;
}

Queue::Queue(DeviceKind device, int threads) : device_(device), threads_(threads) {
    if (threads < 1) {
        throw ShapeError(fmt::format("a queue needs at least one thread, not {}", threads));
    }
}

Queue Queue::cuda(DeviceStream& stream) {
    Queue queue(DeviceKind::kCuda, 1);
    queue.stream_ = &stream;
    return queue;
}

}  // namespace dcp
