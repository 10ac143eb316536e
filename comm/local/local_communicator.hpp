// A group of one rank: every collective is a copy, and nothing can fail or wait.
#pragma once

#include "comm/communicator.hpp"

namespace dcp::comm {

class LocalCommunicator final : public Communicator {
public:
    explicit LocalCommunicator(int world_rank = 0) : Communicator({world_rank}, 0) {}

    void all_to_all(Queue& queue,
                    ConstTensor send,
                    std::span<const std::int64_t> send_counts,
                    Tensor receive,
                    std::span<const std::int64_t> receive_counts) override;
    Pending start_all_to_all(Queue& queue,
                             ConstTensor send,
                             std::span<const std::int64_t> send_counts,
                             Tensor receive,
                             std::span<const std::int64_t> receive_counts) override;
    void all_gather(Queue& queue,
                    ConstTensor send,
                    Tensor receive,
                    std::span<const std::int64_t> block_counts) override;
    Pending start_all_gather(Queue& queue,
                             ConstTensor send,
                             Tensor receive,
                             std::span<const std::int64_t> block_counts) override;
    void reduce_scatter(Queue& queue,
                        ConstTensor send,
                        Tensor receive,
                        std::span<const std::int64_t> block_counts,
                        Tensor workspace) override;
    std::int64_t reduce_scatter_workspace_bytes(
        Number /*number*/, std::span<const std::int64_t> /*block_counts*/) const override {
        return 0;
    }
    void all_reduce(
        Queue& queue, Tensor values, Number number, ReduceOp op, Tensor workspace) override;
    std::int64_t all_reduce_workspace_bytes(Number /*number*/,
                                            std::int64_t /*num_values*/) const override {
        return 0;
    }
    void broadcast(Queue& queue, Tensor values, int root) override;
    using Communicator::exchange;
    Pending exchange(Queue& queue, std::span<const Transfer> transfers) override;
    void barrier(Queue& queue) override;
};

}  // namespace dcp::comm
