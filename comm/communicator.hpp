// Collectives on a group of ranks. Implementations: comm/local (one rank), comm/mpi (host memory);
// the contract is one that NCCL can keep as well: work is ordered on a queue, counts are known on
// the host, no call looks at tensor data from the host.
//
// Example used in the pictures below: world ranks 2, 5, 6 form a group; their group ranks are
// 0, 1, 2. A picture shows the buffers of the group ranks before and after; x1 is block 1 of x.
//
//     world   0   1   2   3   4   5   6   7
//     group   .   .   0   .   .   1   2   .
//
// Protocol. Every member calls the same functions in the same order with matching counts;
// non-members call nothing and are never waited for. A function may block until its peers arrive,
// so two groups that share two ranks must be used by both in the same order: the plan's global
// order of steps guarantees that (design section 4), nothing here checks it.
//
// Tensors are contiguous, of any element type unless an operation says otherwise; counts are
// elements, 64 bits wide, may be 0, and any size is sent (in pieces where a library has a limit).
// Sums are taken in group-rank order whatever arrives first: the same inputs and group give the
// same bits. Buffers may be reused when the queue has passed the call, or the wait of its Pending.
//
// Counts and shapes that do not fit throw ShapeError before anything is sent. A failed peer or a
// library error throws CommError with group, operation and reason; then the run ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/traffic.hpp"
#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"

namespace dcp::comm {

// What a reduction adds. The 64-bit kinds have no DType: their tensors are uint8, 8 bytes a number.
enum class Number : std::uint8_t { kFloat32, kBFloat16, kFloat64, kInt64 };
std::int64_t number_bytes(Number number);

// kMax: a NaN anywhere gives NaN, so that a reduced value cannot look healthier than its parts.
enum class ReduceOp : std::uint8_t { kSum, kMax };

// An operation under way. wait() before its buffers are touched, and before the communicator goes.
class Pending {
public:
    class Operation {
    public:
        virtual ~Operation() = default;
        virtual void wait(Queue& queue) = 0;
        virtual void abandon() noexcept = 0;
    };

    Pending() noexcept = default;  // nothing under way
    explicit Pending(std::unique_ptr<Operation> operation) noexcept;
    // Waits where wait() was forgotten; while an exception unwinds it gives the operation up
    // instead, for its peers may never come.
    ~Pending();
    Pending(Pending&& other) noexcept = default;
    Pending& operator=(Pending&& other) noexcept;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Later work on the queue finds the received data; on a CPU it is there when this returns.
    // A second call does nothing.
    void wait(Queue& queue);
    bool is_pending() const { return operation_ != nullptr; }

private:
    void settle() noexcept;

    std::unique_ptr<Operation> operation_;
    int exceptions_at_start_ = 0;
};

// Sent to one member while something else is received from another: ranks are group ranks, and
// either tensor may be empty.
struct Transfer {
    ConstTensor send;
    int to = 0;
    Tensor receive;
    int from = 0;
};

class Communicator {
public:
    virtual ~Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    Communicator(Communicator&&) = delete;
    Communicator& operator=(Communicator&&) = delete;

    int group_rank() const { return group_rank_; }
    int group_size() const { return static_cast<int>(world_ranks_.size()); }
    const std::vector<int>& world_ranks() const { return world_ranks_; }  // sorted
    std::string describe() const;  // "group of world ranks 2, 5-6 (this is world rank 5)"
    const Traffic& traffic() const { return traffic_; }

    // Rank i's block for rank j becomes block i at rank j.
    //
    //     before   0: a0 a1 a2     1: b0 b1 b2     2: c0 c1 c2
    //     after    0: a0 b0 c0     1: a1 b1 c1     2: a2 b2 c2
    //
    // send_counts[j] here equals receive_counts[i] there; blocks lie one behind the other in rank
    // order. send and receive must not overlap.
    virtual void all_to_all(Queue& queue,
                            ConstTensor send,
                            std::span<const std::int64_t> send_counts,
                            Tensor receive,
                            std::span<const std::int64_t> receive_counts) = 0;
    virtual Pending start_all_to_all(Queue& queue,
                                     ConstTensor send,
                                     std::span<const std::int64_t> send_counts,
                                     Tensor receive,
                                     std::span<const std::int64_t> receive_counts) = 0;

    // Every rank gets every rank's block.
    //
    //     before   0: a            1: b            2: c
    //     after    0: a b c        1: a b c        2: a b c
    //
    // block_counts[i] is what rank i contributes, the same list on all ranks. send may be this
    // rank's own block of receive.
    virtual void all_gather(Queue& queue,
                            ConstTensor send,
                            Tensor receive,
                            std::span<const std::int64_t> block_counts) = 0;
    virtual Pending start_all_gather(Queue& queue,
                                     ConstTensor send,
                                     Tensor receive,
                                     std::span<const std::int64_t> block_counts) = 0;

    // Element-wise sum over the group; rank i keeps block i. fp32 or bf16 (added in fp32, rounded
    // once).
    //
    //     before   0: a0 a1 a2     1: b0 b1 b2     2: c0 c1 c2
    //     after    0: a0+b0+c0     1: a1+b1+c1     2: a2+b2+c2
    //
    // block_counts are the same on all ranks. receive may be this rank's own block of send.
    // workspace: uint8, at least reduce_scatter_workspace_bytes, contents irrelevant.
    virtual void reduce_scatter(Queue& queue,
                                ConstTensor send,
                                Tensor receive,
                                std::span<const std::int64_t> block_counts,
                                Tensor workspace) = 0;
    virtual std::int64_t reduce_scatter_workspace_bytes(
        Number number, std::span<const std::int64_t> block_counts) const = 0;

    // Element-wise sum or maximum, in place, the same bits on every rank.
    //
    //     before   0: a            1: b            2: c
    //     after    0: a+b+c        1: a+b+c        2: a+b+c
    virtual void all_reduce(
        Queue& queue, Tensor values, Number number, ReduceOp op, Tensor workspace) = 0;
    virtual std::int64_t all_reduce_workspace_bytes(Number number,
                                                    std::int64_t num_values) const = 0;

    // The root's values, everywhere (root 1):
    //
    //     before   0: -            1: b            2: -
    //     after    0: b            1: b            2: b
    virtual void broadcast(Queue& queue, Tensor values, int root) = 0;

    // One step of a ring: each rank sends to one member and receives from another, with the next
    // block travelling while the present one is computed (to = next, from = previous):
    //
    //     before   0: a            1: b            2: c
    //     after    0: a c          1: b a          2: c b
    //
    // Several transfers in one call travel together. What rank i sends to rank j is received there
    // in the order of the calls and of the transfers in them.
    virtual Pending exchange(Queue& queue, std::span<const Transfer> transfers) = 0;
    Pending exchange(Queue& queue, const Transfer& transfer) {
        return exchange(queue, std::span(&transfer, 1));
    }

    // Nobody returns before everybody has called.
    virtual void barrier(Queue& queue) = 0;

protected:
    Communicator(std::vector<int> world_ranks, int group_rank);

    Traffic traffic_;

private:
    std::vector<int> world_ranks_;
    int group_rank_;
};

// "2, 5-6"
std::string describe_ranks(std::span<const int> ranks);

}  // namespace dcp::comm
