// Small values in host memory for a few lines of control: the plan, a stop flag, seconds. For
// communicators of host memory (comm/mpi, comm/local), where tensor data is what the host sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace dcp::comm {

// In place, the same bits on every rank.
void all_reduce_values(Queue& queue, Communicator& group, std::span<double> values, ReduceOp op);
void all_reduce_values(Queue& queue,
                       Communicator& group,
                       std::span<std::int64_t> values,
                       ReduceOp op);

// One value a rank, in group-rank order, on every rank.
std::vector<double> all_gather_value(Queue& queue, Communicator& group, double value);
std::vector<std::uint64_t> all_gather_value(Queue& queue, Communicator& group, std::uint64_t value);

// The root's bytes on every rank, whose number only the root needs to know.
std::vector<std::byte> broadcast_bytes(Queue& queue,
                                       Communicator& group,
                                       std::vector<std::byte> bytes,
                                       int root);

// 64-bit FNV-1a.
std::uint64_t hash_bytes(std::span<const std::byte> bytes);

// Collective: throws SharedConfigError (comm/launch.hpp) on every rank unless all hold the same
// bytes; the message says which world ranks differ from the first. `what` is for people: "the
// configuration", "the data set data/manpages".
void check_all_equal(Queue& queue,
                     Communicator& group,
                     std::string_view what,
                     std::span<const std::byte> bytes);

}  // namespace dcp::comm
