// Communicator over MPI, for tensors in host memory. Everything but broadcast and barrier is made
// of point-to-point messages posted together: that is what uneven counts come to in any case, it
// has no 32-bit limit, and reductions need it, for their order of summation must be ours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "comm/communicator.hpp"
#include "comm/mpi/messages.hpp"
#include "comm/mpi/mpi_limits.hpp"
#include "comm/mpi/progress.hpp"

namespace dcp::comm {

class MpiCommunicator final : public Communicator {
public:
    // Takes `communicator` over and frees it, except while an exception unwinds: freeing is
    // collective and the peers may be gone. `progress` outlives this.
    MpiCommunicator(MPI_Comm communicator,
                    std::vector<int> world_ranks,
                    int group_rank,
                    const MpiLimits& limits,
                    ProgressThread& progress);
    ~MpiCommunicator() override;
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;
    MpiCommunicator(MpiCommunicator&&) = delete;
    MpiCommunicator& operator=(MpiCommunicator&&) = delete;

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
        Number number, std::span<const std::int64_t> block_counts) const override;
    void all_reduce(
        Queue& queue, Tensor values, Number number, ReduceOp op, Tensor workspace) override;
    std::int64_t all_reduce_workspace_bytes(Number number, std::int64_t num_values) const override;
    void broadcast(Queue& queue, Tensor values, int root) override;
    using Communicator::exchange;
    Pending exchange(Queue& queue, std::span<const Transfer> transfers) override;
    void barrier(Queue& queue) override;

private:
    class PendingMessages;
    class Call;

    int peer(int distance) const { return (group_rank() + distance) % group_size(); }
    void post_all_to_all(Messages& messages,
                         const ConstTensor& send,
                         std::span<const std::int64_t> send_counts,
                         const Tensor& receive,
                         std::span<const std::int64_t> receive_counts);
    void post_all_gather(Messages& messages,
                         const ConstTensor& send,
                         const Tensor& receive,
                         std::span<const std::int64_t> block_counts);
    void post_exchange(Messages& messages, std::span<const Transfer> transfers) const;
    Pending start(Operation operation, std::unique_ptr<PendingMessages> pending);

    // The body of both reductions: this rank's block of `values`, reduced over the group, to `out`.
    // Returns the bytes sent.
    std::int64_t reduce_own_block(Queue& queue,
                                  Number number,
                                  ReduceOp op,
                                  const std::byte* values,
                                  std::span<const std::int64_t> block_counts,
                                  std::byte* out,
                                  std::byte* workspace);
    std::int64_t reduce_all_directly(
        Queue& queue, Number number, ReduceOp op, const Tensor& values, std::byte* workspace);
    bool is_direct(Number number, std::int64_t num_values) const;
    std::int64_t rounds_workspace_bytes(Number number, std::int64_t largest_block) const;
    // Where each block begins, in elements, in a list that lives until the next call.
    std::span<const std::int64_t> begins(std::span<const std::int64_t> counts,
                                         std::vector<std::int64_t>& list) const;

    MPI_Comm communicator_;
    std::string group_;  // for error messages
    MpiLimits limits_;
    ProgressThread& progress_;
    int exceptions_at_start_;
    // Of blocking calls, kept for their memory.
    Messages messages_;
    std::vector<std::int64_t> send_begins_;
    std::vector<std::int64_t> receive_begins_;
    std::vector<std::int64_t> even_counts_;
    std::vector<const void*> parts_;
};

}  // namespace dcp::comm
