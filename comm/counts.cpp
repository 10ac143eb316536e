#include "comm/counts.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::comm {

std::int64_t payload_bytes(const ConstTensor& tensor) {
    const bool is_unset = !tensor && tensor.shape().num_dims() == 0;
    return is_unset ? 0 : tensor.num_bytes();
}

std::int64_t checked_total(std::string_view what, std::span<const std::int64_t> counts) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
        if (count < 0) {
            throw ShapeError(fmt::format("{}: a count is negative: {}", what, count));
        }
        if (count > std::numeric_limits<std::int64_t>::max() - total) {
            throw ShapeError(fmt::format("{}: the counts add up to more than 64 bits hold", what));
        }
        total += count;
    }
    return total;
}

std::int64_t num_pieces(std::int64_t bytes, std::int64_t piece_bytes) {
    return bytes / piece_bytes + (bytes % piece_bytes != 0 ? 1 : 0);
}

Piece piece(std::int64_t bytes, std::int64_t piece_bytes, std::int64_t index) {
    const std::int64_t begin = index * piece_bytes;
    return {begin, std::min(piece_bytes, bytes - begin)};
}

std::int64_t even_block_begin(std::int64_t total, int parts, int index) {
    return total / parts * index + std::min<std::int64_t>(total % parts, index);
}

std::int64_t even_block_elems(std::int64_t total, int parts, int index) {
    return total / parts + (index < total % parts ? 1 : 0);
}

std::int64_t reduce_round_elems(std::int64_t elem_bytes, int group_size, std::int64_t limit_bytes) {
    // A multiple of a cache line, so that rounds start aligned when the block does.
    constexpr std::int64_t kLineBytes = 64;
    const std::int64_t line_elems = kLineBytes / elem_bytes;
    return std::max<std::int64_t>(1, limit_bytes / (elem_bytes * group_size * line_elems)) *
           line_elems;
}

namespace {

[[noreturn]] void refuse(const Communicator& group, Operation operation, std::string_view why) {
    throw ShapeError(fmt::format("{} in the {}: {}", name(operation), group.describe(), why));
}

// The counts, one a member, fill the tensor exactly.
void check_blocks(const Communicator& group,
                  Operation operation,
                  std::string_view what,
                  const ConstTensor& tensor,
                  std::span<const std::int64_t> counts) {
    if (static_cast<int>(counts.size()) != group.group_size()) {
        refuse(
            group, operation,
            fmt::format("{} has {} counts for {} ranks", what, counts.size(), group.group_size()));
    }
    const std::int64_t total = checked_total(what, counts);
    if (total != tensor.num_elems()) {
        refuse(group, operation,
               fmt::format("the counts of {} add up to {}, the tensor {} has {} elements", what,
                           total, tensor.shape().to_string(), tensor.num_elems()));
    }
}

void check_storage(const Communicator& group,
                   Operation operation,
                   std::string_view what,
                   const ConstTensor& tensor) {
    if (!tensor.is_contiguous()) {
        refuse(group, operation, fmt::format("{} is strided", what));
    }
    if (!tensor && payload_bytes(tensor) > 0) {
        refuse(group, operation, fmt::format("{} has no memory", what));
    }
}

void check_same_dtype(const Communicator& group,
                      Operation operation,
                      const ConstTensor& send,
                      const ConstTensor& receive) {
    if (send.dtype() != receive.dtype()) {
        refuse(group, operation,
               fmt::format("{} is sent, {} received", name(send.dtype()), name(receive.dtype())));
    }
}

void check_own_block(const Communicator& group,
                     Operation operation,
                     std::string_view what,
                     const ConstTensor& block,
                     std::span<const std::int64_t> counts) {
    const std::int64_t own = counts[static_cast<std::size_t>(group.group_rank())];
    if (block.num_elems() != own) {
        refuse(group, operation,
               fmt::format("{} has {} elements, this rank's count is {}", what, block.num_elems(),
                           own));
    }
}

void check_workspace(const Communicator& group,
                     Operation operation,
                     const ConstTensor& workspace,
                     std::int64_t needed_bytes) {
    check_storage(group, operation, "workspace", workspace);
    if (needed_bytes > 0 && (!workspace || workspace.num_bytes() < needed_bytes)) {
        refuse(group, operation,
               fmt::format("the workspace has {} bytes, {} are needed",
                           workspace ? workspace.num_bytes() : 0, needed_bytes));
    }
}

void check_member(const Communicator& group, Operation operation, std::string_view what, int rank) {
    if (rank < 0 || rank >= group.group_size()) {
        refuse(group, operation,
               fmt::format("{} is group rank {} of {}", what, rank, group.group_size()));
    }
}

}  // namespace

Number number_of(const Communicator& group, std::string_view operation, DType dtype) {
    switch (dtype) {
        case DType::kFloat32:
            return Number::kFloat32;
        case DType::kBFloat16:
            return Number::kBFloat16;
        case DType::kInt32:
        case DType::kUInt8:
            break;
    }
    throw ShapeError(fmt::format("{} in the {}: adds fp32 or bf16, not {}", operation,
                                 group.describe(), name(dtype)));
}

void check_all_to_all(const Communicator& group,
                      const ConstTensor& send,
                      std::span<const std::int64_t> send_counts,
                      const ConstTensor& receive,
                      std::span<const std::int64_t> receive_counts) {
    constexpr Operation kOperation = Operation::kAllToAll;
    check_storage(group, kOperation, "send", send);
    check_storage(group, kOperation, "receive", receive);
    check_same_dtype(group, kOperation, send, receive);
    check_blocks(group, kOperation, "send", send, send_counts);
    check_blocks(group, kOperation, "receive", receive, receive_counts);
    const auto own = static_cast<std::size_t>(group.group_rank());
    if (send_counts[own] != receive_counts[own]) {
        refuse(group, kOperation,
               fmt::format("this rank sends itself {} elements and receives {}", send_counts[own],
                           receive_counts[own]));
    }
}

void check_all_gather(const Communicator& group,
                      const ConstTensor& send,
                      const ConstTensor& receive,
                      std::span<const std::int64_t> block_counts) {
    constexpr Operation kOperation = Operation::kAllGather;
    check_storage(group, kOperation, "send", send);
    check_storage(group, kOperation, "receive", receive);
    check_same_dtype(group, kOperation, send, receive);
    check_blocks(group, kOperation, "receive", receive, block_counts);
    check_own_block(group, kOperation, "send", send, block_counts);
}

void check_reduce_scatter(const Communicator& group,
                          const ConstTensor& send,
                          const ConstTensor& receive,
                          std::span<const std::int64_t> block_counts,
                          const ConstTensor& workspace) {
    constexpr Operation kOperation = Operation::kReduceScatter;
    check_storage(group, kOperation, "send", send);
    check_storage(group, kOperation, "receive", receive);
    check_same_dtype(group, kOperation, send, receive);
    check_blocks(group, kOperation, "send", send, block_counts);
    check_own_block(group, kOperation, "receive", receive, block_counts);
    const Number number = number_of(group, name(kOperation), send.dtype());
    check_workspace(group, kOperation, workspace,
                    group.reduce_scatter_workspace_bytes(number, block_counts));
}

std::int64_t check_all_reduce(const Communicator& group,
                              const ConstTensor& values,
                              Number number,
                              const ConstTensor& workspace) {
    constexpr Operation kOperation = Operation::kAllReduce;
    check_storage(group, kOperation, "values", values);
    const bool is_wide = number == Number::kFloat64 || number == Number::kInt64;
    if (is_wide ? values.dtype() != DType::kUInt8 || values.num_bytes() % 8 != 0
                : number_of(group, name(kOperation), values.dtype()) != number) {
        refuse(group, kOperation,
               fmt::format("a tensor of {} {} does not hold numbers of {} bytes",
                           values.num_elems(), name(values.dtype()), number_bytes(number)));
    }
    const std::int64_t num_values = values.num_bytes() / number_bytes(number);
    check_workspace(group, kOperation, workspace,
                    group.all_reduce_workspace_bytes(number, num_values));
    return num_values;
}

void check_broadcast(const Communicator& group, const ConstTensor& values, int root) {
    check_storage(group, Operation::kBroadcast, "values", values);
    check_member(group, Operation::kBroadcast, "the root", root);
}

void check_exchange(const Communicator& group, std::span<const Transfer> transfers) {
    for (const Transfer& transfer : transfers) {
        check_storage(group, Operation::kExchange, "send", transfer.send);
        check_storage(group, Operation::kExchange, "receive", transfer.receive);
        check_member(group, Operation::kExchange, "the receiver", transfer.to);
        check_member(group, Operation::kExchange, "the sender", transfer.from);
        const bool to_self = transfer.to == group.group_rank();
        const bool from_self = transfer.from == group.group_rank();
        if ((to_self || from_self) &&
            !(to_self && from_self &&
              payload_bytes(transfer.send) == payload_bytes(transfer.receive))) {
            refuse(group, Operation::kExchange,
                   "a transfer to this rank itself must be received by it, whole");
        }
    }
}

}  // namespace dcp::comm
