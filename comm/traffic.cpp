#include "comm/traffic.hpp"

namespace dcp::comm {

std::string_view name(Operation operation) {
    switch (operation) {
        case Operation::kAllToAll:
            return "all_to_all";
        case Operation::kAllGather:
            return "all_gather";
        case Operation::kAllReduce:
            return "all_reduce";
        case Operation::kReduceScatter:
            return "reduce_scatter";
        case Operation::kBroadcast:
            return "broadcast";
        case Operation::kExchange:
            return "exchange";
        case Operation::kBarrier:
            return "barrier";
    }
    return "?";
}

Traffic& Traffic::operator+=(const Traffic& other) {
    for (std::size_t index = 0; index < entries_.size(); ++index) {
        entries_[index].calls += other.entries_[index].calls;
        entries_[index].sent_bytes += other.entries_[index].sent_bytes;
        entries_[index].seconds += other.entries_[index].seconds;
    }
    return *this;
}

Traffic::Entry Traffic::total() const {
    Entry sum;
    for (const Entry& entry : entries_) {
        sum.calls += entry.calls;
        sum.sent_bytes += entry.sent_bytes;
        sum.seconds += entry.seconds;
    }
    return sum;
}

}  // namespace dcp::comm
