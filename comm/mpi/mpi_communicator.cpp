#include "comm/mpi/mpi_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "comm/counts.hpp"
#include "comm/mpi/mpi_check.hpp"
#include "comm/ordered_reduce.hpp"

namespace dcp::comm {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// A block that is gathered in place is its own target.
void copy_bytes(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0 && to != from) {
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
}

const std::byte* bytes_of(const ConstTensor& tensor) {
    return static_cast<const std::byte*>(tensor.data());
}

std::byte* bytes_of(const Tensor& tensor) {
    return static_cast<std::byte*>(tensor.data());
}

}  // namespace

// Counts a call and its time, from construction to destruction.
class MpiCommunicator::Call {
public:
    explicit Call(Traffic::Entry& entry) : entry_(entry) { ++entry_.calls; }
    ~Call() { entry_.seconds += seconds_since(start_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    Call(Call&&) = delete;
    Call& operator=(Call&&) = delete;
    void sent(std::int64_t bytes) { entry_.sent_bytes += bytes; }

private:
    Traffic::Entry& entry_;
    Clock::time_point start_ = Clock::now();
};

// Messages that the progress thread moves until somebody waits for them.
class MpiCommunicator::PendingMessages final : public Pending::Operation {
public:
    PendingMessages(MpiCommunicator& owner, comm::Operation operation)
        : owner_(owner),
          operation_(operation),
          messages_(owner.communicator_, owner.limits_.piece_bytes) {}

    Messages& messages() { return messages_; }
    void travel() { owner_.progress_.add(messages_); }

    void wait(Queue& /*queue*/) override {
        const Clock::time_point start = Clock::now();
        owner_.progress_.remove(messages_);
        messages_.wait(name(operation_), owner_.group_);
        owner_.traffic_[operation_].seconds += seconds_since(start);
    }

    // The run ends: nothing may write to the buffers any more, and MPI is not asked again.
    void abandon() noexcept override { owner_.progress_.stop(); }

private:
    MpiCommunicator& owner_;
    comm::Operation operation_;
    Messages messages_;
};

MpiCommunicator::MpiCommunicator(MPI_Comm communicator,
                                 std::vector<int> world_ranks,
                                 int group_rank,
                                 const MpiLimits& limits,
                                 ProgressThread& progress)
    : Communicator(std::move(world_ranks), group_rank),
      communicator_(communicator),
      group_(describe()),
      limits_(limits),
      progress_(progress),
      exceptions_at_start_(std::uncaught_exceptions()),
      messages_(communicator, limits.piece_bytes),
      parts_(static_cast<std::size_t>(group_size())) {
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
              group_);
}

MpiCommunicator::~MpiCommunicator() {
    if (std::uncaught_exceptions() > exceptions_at_start_) {
        return;
    }
    if (const int code = MPI_Comm_free(&communicator_); code != MPI_SUCCESS) {
        fmt::print(stderr, "dcp: MPI_Comm_free failed in the {}: {}\n", group_,
                   mpi_error_text(code));
    }
}

std::span<const std::int64_t> MpiCommunicator::begins(std::span<const std::int64_t> counts,
                                                      std::vector<std::int64_t>& list) const {
    list.clear();
    std::int64_t begin = 0;
    for (const std::int64_t count : counts) {
        list.push_back(begin);
        begin += count;
    }
    return list;
}

void MpiCommunicator::post_all_to_all(Messages& messages,
                                      const ConstTensor& send,
                                      std::span<const std::int64_t> send_counts,
                                      const Tensor& receive,
                                      std::span<const std::int64_t> receive_counts) {
    check_all_to_all(*this, send, send_counts, receive, receive_counts);
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(send.dtype()));
    const auto send_begins = begins(send_counts, send_begins_);
    const auto receive_begins = begins(receive_counts, receive_begins_);
    for (int distance = 1; distance < group_size(); ++distance) {
        const auto from = static_cast<std::size_t>(peer(group_size() - distance));
        messages.receive(bytes_of(receive) + receive_begins[from] * elem_bytes,
                         receive_counts[from] * elem_bytes, static_cast<int>(from));
    }
    for (int distance = 1; distance < group_size(); ++distance) {
        const auto to = static_cast<std::size_t>(peer(distance));
        messages.send(bytes_of(send) + send_begins[to] * elem_bytes, send_counts[to] * elem_bytes,
                      static_cast<int>(to));
    }
    const auto own = static_cast<std::size_t>(group_rank());
    copy_bytes(bytes_of(receive) + receive_begins[own] * elem_bytes,
               bytes_of(send) + send_begins[own] * elem_bytes, send_counts[own] * elem_bytes);
}

void MpiCommunicator::post_all_gather(Messages& messages,
                                      const ConstTensor& send,
                                      const Tensor& receive,
                                      std::span<const std::int64_t> block_counts) {
    check_all_gather(*this, send, receive, block_counts);
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(send.dtype()));
    const auto block_begins = begins(block_counts, receive_begins_);
    for (int distance = 1; distance < group_size(); ++distance) {
        const auto from = static_cast<std::size_t>(peer(group_size() - distance));
        messages.receive(bytes_of(receive) + block_begins[from] * elem_bytes,
                         block_counts[from] * elem_bytes, static_cast<int>(from));
    }
    const auto own = static_cast<std::size_t>(group_rank());
    for (int distance = 1; distance < group_size(); ++distance) {
        messages.send(send.data(), block_counts[own] * elem_bytes, peer(distance));
    }
    copy_bytes(bytes_of(receive) + block_begins[own] * elem_bytes, send.data(),
               block_counts[own] * elem_bytes);
}

void MpiCommunicator::post_exchange(Messages& messages, std::span<const Transfer> transfers) const {
    check_exchange(*this, transfers);
    for (const Transfer& transfer : transfers) {
        if (transfer.from == group_rank()) {
            copy_bytes(transfer.receive.data(), transfer.send.data(), payload_bytes(transfer.send));
        } else {
            messages.receive(transfer.receive.data(), payload_bytes(transfer.receive),
                             transfer.from);
        }
    }
    for (const Transfer& transfer : transfers) {
        if (transfer.to != group_rank()) {
            messages.send(transfer.send.data(), payload_bytes(transfer.send), transfer.to);
        }
    }
}

Pending MpiCommunicator::start(Operation operation, std::unique_ptr<PendingMessages> pending) {
    traffic_[operation].sent_bytes += pending->messages().sent_bytes();
    pending->travel();
    return Pending(std::move(pending));
}

void MpiCommunicator::all_to_all(Queue& /*queue*/,
                                 ConstTensor send,
                                 std::span<const std::int64_t> send_counts,
                                 Tensor receive,
                                 std::span<const std::int64_t> receive_counts) {
    Call call(traffic_[Operation::kAllToAll]);
    messages_.clear();
    post_all_to_all(messages_, send, send_counts, receive, receive_counts);
    call.sent(messages_.sent_bytes());
    messages_.wait(name(Operation::kAllToAll), group_);
}

Pending MpiCommunicator::start_all_to_all(Queue& /*queue*/,
                                          ConstTensor send,
                                          std::span<const std::int64_t> send_counts,
                                          Tensor receive,
                                          std::span<const std::int64_t> receive_counts) {
    const Call call(traffic_[Operation::kAllToAll]);
    auto pending = std::make_unique<PendingMessages>(*this, Operation::kAllToAll);
    post_all_to_all(pending->messages(), send, send_counts, receive, receive_counts);
    return start(Operation::kAllToAll, std::move(pending));
}

void MpiCommunicator::all_gather(Queue& /*queue*/,
                                 ConstTensor send,
                                 Tensor receive,
                                 std::span<const std::int64_t> block_counts) {
    Call call(traffic_[Operation::kAllGather]);
    messages_.clear();
    post_all_gather(messages_, send, receive, block_counts);
    call.sent(messages_.sent_bytes());
    messages_.wait(name(Operation::kAllGather), group_);
}

Pending MpiCommunicator::start_all_gather(Queue& /*queue*/,
                                          ConstTensor send,
                                          Tensor receive,
                                          std::span<const std::int64_t> block_counts) {
    const Call call(traffic_[Operation::kAllGather]);
    auto pending = std::make_unique<PendingMessages>(*this, Operation::kAllGather);
    post_all_gather(pending->messages(), send, receive, block_counts);
    return start(Operation::kAllGather, std::move(pending));
}

Pending MpiCommunicator::exchange(Queue& /*queue*/, std::span<const Transfer> transfers) {
    const Call call(traffic_[Operation::kExchange]);
    auto pending = std::make_unique<PendingMessages>(*this, Operation::kExchange);
    post_exchange(pending->messages(), transfers);
    return start(Operation::kExchange, std::move(pending));
}

void MpiCommunicator::broadcast(Queue& /*queue*/, Tensor values, int root) {
    check_broadcast(*this, values, root);
    Call call(traffic_[Operation::kBroadcast]);
    const std::int64_t bytes = payload_bytes(values);
    const std::int64_t pieces = num_pieces(bytes, limits_.piece_bytes);
    for (std::int64_t index = 0; index < pieces; ++index) {
        const Piece part = piece(bytes, limits_.piece_bytes, index);
        check_mpi(MPI_Bcast(bytes_of(values) + part.begin_bytes, static_cast<int>(part.size_bytes),
                            MPI_BYTE, root, communicator_),
                  name(Operation::kBroadcast), group_);
    }
    if (root == group_rank() && group_size() > 1) {
        call.sent(bytes);
    }
}

void MpiCommunicator::barrier(Queue& /*queue*/) {
    const Call call(traffic_[Operation::kBarrier]);
    check_mpi(MPI_Barrier(communicator_), name(Operation::kBarrier), group_);
}

std::int64_t MpiCommunicator::rounds_workspace_bytes(Number number,
                                                     std::int64_t largest_block) const {
    const std::int64_t elem_bytes = number_bytes(number);
    const std::int64_t round =
        reduce_round_elems(elem_bytes, group_size(), limits_.reduce_workspace_bytes);
    return (group_size() - 1) * std::min(round, largest_block) * elem_bytes;
}

std::int64_t MpiCommunicator::reduce_own_block(Queue& queue,
                                               Number number,
                                               ReduceOp op,
                                               const std::byte* values,
                                               std::span<const std::int64_t> block_counts,
                                               std::byte* out,
                                               std::byte* workspace) {
    const std::int64_t elem_bytes = number_bytes(number);
    const std::int64_t round =
        reduce_round_elems(elem_bytes, group_size(), limits_.reduce_workspace_bytes);
    const auto block_begins = begins(block_counts, send_begins_);
    const std::int64_t largest = *std::ranges::max_element(block_counts);
    std::int64_t sent_bytes = 0;
    for (std::int64_t begin = 0; begin < largest; begin += round) {
        // What a rank has of its block in this round, and where that lies in `values`.
        const auto round_bytes = [&](int rank) {
            const std::int64_t left = block_counts[static_cast<std::size_t>(rank)] - begin;
            return std::clamp<std::int64_t>(left, 0, round) * elem_bytes;
        };
        const auto address = [&](int rank) {
            return values + (block_begins[static_cast<std::size_t>(rank)] + begin) * elem_bytes;
        };
        const std::int64_t own_bytes = round_bytes(group_rank());
        messages_.clear();
        for (int distance = 1; distance < group_size(); ++distance) {
            const int from = peer(group_size() - distance);
            std::byte* part = workspace + (distance - 1) * own_bytes;
            messages_.receive(part, own_bytes, from);
            parts_[static_cast<std::size_t>(from)] = part;
        }
        parts_[static_cast<std::size_t>(group_rank())] = address(group_rank());
        for (int distance = 1; distance < group_size(); ++distance) {
            const int to = peer(distance);
            messages_.send(address(to), round_bytes(to), to);
        }
        sent_bytes += messages_.sent_bytes();
        messages_.wait("reduction", group_);
        if (own_bytes > 0) {
            ordered_reduce(queue, number, op, parts_, out + begin * elem_bytes,
                           own_bytes / elem_bytes);
        }
    }
    return sent_bytes;
}

void MpiCommunicator::reduce_scatter(Queue& queue,
                                     ConstTensor send,
                                     Tensor receive,
                                     std::span<const std::int64_t> block_counts,
                                     Tensor workspace) {
    check_reduce_scatter(*this, send, receive, block_counts, workspace);
    Call call(traffic_[Operation::kReduceScatter]);
    const Number number = number_of(*this, name(Operation::kReduceScatter), send.dtype());
    call.sent(reduce_own_block(queue, number, ReduceOp::kSum, bytes_of(send), block_counts,
                               bytes_of(receive), bytes_of(workspace)));
}

std::int64_t MpiCommunicator::reduce_scatter_workspace_bytes(
    Number number, std::span<const std::int64_t> block_counts) const {
    return rounds_workspace_bytes(number, *std::ranges::max_element(block_counts));
}

bool MpiCommunicator::is_direct(Number number, std::int64_t num_values) const {
    return num_values <=
           limits_.direct_reduce_bytes / (number_bytes(number) * std::max(1, group_size() - 1));
}

std::int64_t MpiCommunicator::reduce_all_directly(
    Queue& queue, Number number, ReduceOp op, const Tensor& values, std::byte* workspace) {
    const std::int64_t bytes = payload_bytes(values);
    messages_.clear();
    for (int distance = 1; distance < group_size(); ++distance) {
        const int from = peer(group_size() - distance);
        std::byte* part = workspace + (distance - 1) * bytes;
        messages_.receive(part, bytes, from);
        parts_[static_cast<std::size_t>(from)] = part;
    }
    parts_[static_cast<std::size_t>(group_rank())] = values.data();
    for (int distance = 1; distance < group_size(); ++distance) {
        messages_.send(values.data(), bytes, peer(distance));
    }
    messages_.wait(name(Operation::kAllReduce), group_);
    ordered_reduce(queue, number, op, parts_, values.data(), bytes / number_bytes(number));
    return messages_.sent_bytes();
}

void MpiCommunicator::all_reduce(
    Queue& queue, Tensor values, Number number, ReduceOp op, Tensor workspace) {
    const std::int64_t num_values = check_all_reduce(*this, values, number, workspace);
    Call call(traffic_[Operation::kAllReduce]);
    if (is_direct(number, num_values)) {
        call.sent(reduce_all_directly(queue, number, op, values, bytes_of(workspace)));
        return;
    }
    even_counts_.clear();
    for (int rank = 0; rank < group_size(); ++rank) {
        even_counts_.push_back(even_block_elems(num_values, group_size(), rank));
    }
    const std::int64_t elem_bytes = number_bytes(number);
    std::byte* own =
        bytes_of(values) + even_block_begin(num_values, group_size(), group_rank()) * elem_bytes;
    call.sent(reduce_own_block(queue, number, op, bytes_of(values), even_counts_, own,
                               bytes_of(workspace)));
    // Reduced blocks to everyone, as bytes: the 64-bit numbers have no element type.
    std::ranges::transform(even_counts_, even_counts_.begin(),
                           [&](std::int64_t count) { return count * elem_bytes; });
    const std::int64_t own_bytes = even_counts_[static_cast<std::size_t>(group_rank())];
    messages_.clear();
    post_all_gather(messages_, ConstTensor(own, DType::kUInt8, {own_bytes}),
                    Tensor(values.data(), DType::kUInt8, {num_values * elem_bytes}), even_counts_);
    call.sent(messages_.sent_bytes());
    messages_.wait(name(Operation::kAllReduce), group_);
}

std::int64_t MpiCommunicator::all_reduce_workspace_bytes(Number number,
                                                         std::int64_t num_values) const {
    return is_direct(number, num_values)
               ? (group_size() - 1) * num_values * number_bytes(number)
               : rounds_workspace_bytes(number, even_block_elems(num_values, group_size(), 0));
}

}  // namespace dcp::comm
