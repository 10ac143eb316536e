// Arithmetic of counts and the checks every implementation makes before it sends anything. Pure;
// 64 bits throughout, since a message library counts in 32.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comm/communicator.hpp"

namespace dcp::comm {

// Bytes of a tensor's elements; 0 for one that was never set.
std::int64_t payload_bytes(const ConstTensor& tensor);

// Sum of non-negative counts; ShapeError for a negative one or a sum beyond 64 bits.
std::int64_t checked_total(std::string_view what, std::span<const std::int64_t> counts);

// A message of `bytes` is sent as pieces of at most `piece_bytes`.
struct Piece {
    std::int64_t begin_bytes;
    std::int64_t size_bytes;
};
std::int64_t num_pieces(std::int64_t bytes, std::int64_t piece_bytes);
Piece piece(std::int64_t bytes, std::int64_t piece_bytes, std::int64_t index);

// Block i of `total` elements shared out as evenly as possible: the first total % parts blocks have
// one more.
std::int64_t even_block_begin(std::int64_t total, int parts, int index);
std::int64_t even_block_elems(std::int64_t total, int parts, int index);

// A reduction receives every peer's part of a block before it adds them in order. It does so in
// rounds, so that the workspace stays within `limit_bytes` however long the block is; all ranks
// must come to the same number, so it depends on nothing local.
std::int64_t reduce_round_elems(std::int64_t elem_bytes, int group_size, std::int64_t limit_bytes);

// The refusals: sizes of the lists, negative counts, tensors that the counts do not fill, strides,
// element types.
void check_all_to_all(const Communicator& group,
                      const ConstTensor& send,
                      std::span<const std::int64_t> send_counts,
                      const ConstTensor& receive,
                      std::span<const std::int64_t> receive_counts);
void check_all_gather(const Communicator& group,
                      const ConstTensor& send,
                      const ConstTensor& receive,
                      std::span<const std::int64_t> block_counts);
void check_reduce_scatter(const Communicator& group,
                          const ConstTensor& send,
                          const ConstTensor& receive,
                          std::span<const std::int64_t> block_counts,
                          const ConstTensor& workspace);
// Returns the number of values.
std::int64_t check_all_reduce(const Communicator& group,
                              const ConstTensor& values,
                              Number number,
                              const ConstTensor& workspace);
void check_broadcast(const Communicator& group, const ConstTensor& values, int root);
void check_exchange(const Communicator& group, std::span<const Transfer> transfers);

Number number_of(const Communicator& group, std::string_view operation, DType dtype);

}  // namespace dcp::comm
