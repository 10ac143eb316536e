#include "comm/local/local_communicator.hpp"

#include <cstring>

#include "comm/counts.hpp"

namespace dcp::comm {

namespace {

// memmove: a block that is gathered or reduced in place is its own target.
void copy(const ConstTensor& from, const Tensor& to) {
    if (const std::int64_t bytes = payload_bytes(from); bytes > 0) {
        std::memmove(to.data(), from.data(), static_cast<std::size_t>(bytes));
    }
}

}  // namespace

void LocalCommunicator::all_to_all(Queue& /*queue*/,
                                   ConstTensor send,
                                   std::span<const std::int64_t> send_counts,
                                   Tensor receive,
                                   std::span<const std::int64_t> receive_counts) {
    check_all_to_all(*this, send, send_counts, receive, receive_counts);
    ++traffic_[Operation::kAllToAll].calls;
    copy(send, receive);
}

Pending LocalCommunicator::start_all_to_all(Queue& queue,
                                            ConstTensor send,
                                            std::span<const std::int64_t> send_counts,
                                            Tensor receive,
                                            std::span<const std::int64_t> receive_counts) {
    all_to_all(queue, send, send_counts, receive, receive_counts);
    return {};
}

void LocalCommunicator::all_gather(Queue& /*queue*/,
                                   ConstTensor send,
                                   Tensor receive,
                                   std::span<const std::int64_t> block_counts) {
    check_all_gather(*this, send, receive, block_counts);
    ++traffic_[Operation::kAllGather].calls;
    copy(send, receive);
}

Pending LocalCommunicator::start_all_gather(Queue& queue,
                                            ConstTensor send,
                                            Tensor receive,
                                            std::span<const std::int64_t> block_counts) {
    all_gather(queue, send, receive, block_counts);
    return {};
}

void LocalCommunicator::reduce_scatter(Queue& /*queue*/,
                                       ConstTensor send,
                                       Tensor receive,
                                       std::span<const std::int64_t> block_counts,
                                       Tensor workspace) {
    check_reduce_scatter(*this, send, receive, block_counts, workspace);
    ++traffic_[Operation::kReduceScatter].calls;
    copy(send, receive);
}

void LocalCommunicator::all_reduce(
    Queue& /*queue*/, Tensor values, Number number, ReduceOp /*op*/, Tensor workspace) {
    check_all_reduce(*this, values, number, workspace);
    ++traffic_[Operation::kAllReduce].calls;
}

void LocalCommunicator::broadcast(Queue& /*queue*/, Tensor values, int root) {
    check_broadcast(*this, values, root);
    ++traffic_[Operation::kBroadcast].calls;
}

Pending LocalCommunicator::exchange(Queue& /*queue*/, std::span<const Transfer> transfers) {
    check_exchange(*this, transfers);
    ++traffic_[Operation::kExchange].calls;
    for (const Transfer& transfer : transfers) {
        copy(transfer.send, transfer.receive);
    }
    return {};
}

void LocalCommunicator::barrier(Queue& /*queue*/) {
    ++traffic_[Operation::kBarrier].calls;
}

}  // namespace dcp::comm
