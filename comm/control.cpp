#include "comm/control.hpp"

#include <fmt/format.h>

#include "comm/launch.hpp"

namespace dcp::comm {

namespace {

// A uint8 view of host values.
template <class Value>
Tensor byte_tensor(std::span<Value> values) {
    return {values.data(), DType::kUInt8, {static_cast<std::int64_t>(values.size_bytes())}};
}

template <class Value>
void reduce(
    Queue& queue, Communicator& group, std::span<Value> values, Number number, ReduceOp op) {
    const std::int64_t bytes =
        group.all_reduce_workspace_bytes(number, static_cast<std::int64_t>(values.size()));
    std::vector<std::byte> workspace(static_cast<std::size_t>(bytes));
    group.all_reduce(queue, byte_tensor(values), number, op, byte_tensor(std::span(workspace)));
}

template <class Value>
std::vector<Value> gather(Queue& queue, Communicator& group, Value value) {
    const auto size = static_cast<std::size_t>(group.group_size());
    std::vector<Value> values(size);
    const std::vector<std::int64_t> counts(size, sizeof(Value));
    group.all_gather(queue, byte_tensor(std::span(&value, 1)), byte_tensor(std::span(values)),
                     counts);
    return values;
}

}  // namespace

void all_reduce_values(Queue& queue, Communicator& group, std::span<double> values, ReduceOp op) {
    reduce(queue, group, values, Number::kFloat64, op);
}

void all_reduce_values(Queue& queue,
                       Communicator& group,
                       std::span<std::int64_t> values,
                       ReduceOp op) {
    reduce(queue, group, values, Number::kInt64, op);
}

std::vector<double> all_gather_value(Queue& queue, Communicator& group, double value) {
    return gather(queue, group, value);
}

std::vector<std::uint64_t> all_gather_value(Queue& queue,
                                            Communicator& group,
                                            std::uint64_t value) {
    return gather(queue, group, value);
}

std::vector<std::byte> broadcast_bytes(Queue& queue,
                                       Communicator& group,
                                       std::vector<std::byte> bytes,
                                       int root) {
    std::uint64_t size = bytes.size();
    group.broadcast(queue, byte_tensor(std::span(&size, 1)), root);
    bytes.resize(size);
    group.broadcast(queue, byte_tensor(std::span(bytes)), root);
    return bytes;
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
    constexpr std::uint64_t kOffset = 0xcbf29ce484222325;
    constexpr std::uint64_t kPrime = 0x100000001b3;
    std::uint64_t hash = kOffset;
    for (const std::byte byte : bytes) {
        hash = (hash ^ static_cast<std::uint64_t>(byte)) * kPrime;
    }
    return hash;
}

void check_all_equal(Queue& queue,
                     Communicator& group,
                     std::string_view what,
                     std::span<const std::byte> bytes) {
    const std::vector<std::uint64_t> hashes = all_gather_value(queue, group, hash_bytes(bytes));
    const std::vector<std::uint64_t> sizes =
        all_gather_value(queue, group, static_cast<std::uint64_t>(bytes.size()));
    std::vector<int> different;
    for (std::size_t index = 1; index < hashes.size(); ++index) {
        if (hashes[index] != hashes[0] || sizes[index] != sizes[0]) {
            different.push_back(group.world_ranks()[index]);
        }
    }
    if (!different.empty()) {
        throw SharedConfigError(fmt::format(
            "{} is not the same on every rank: world rank{} {} differ{} from rank {}; start every "
            "rank with the same program, configuration and data",
            what, different.size() == 1 ? "" : "s", describe_ranks(different),
            different.size() == 1 ? "s" : "", group.world_ranks()[0]));
    }
}

}  // namespace dcp::comm
