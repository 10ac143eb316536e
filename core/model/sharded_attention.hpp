// Attention of sequences whose tokens are spread over a group (core/model/sharding.hpp): Ulysses,
// ring, and both at once. Letters: u and r are the two degrees; a row is the u ranks of one ring
// part, h = H / u the query heads of a rank after the exchange, g its key/value heads.
//
// Ulysses (Jacobs et al. 2023, arXiv 2309.14509). One all-to-all in the row turns "my tokens, all
// heads" into "the tokens of the part, my heads"; another turns the result back. Forward sends q, k
// and v, then o; backward sends d_o, then d_q, d_k and d_v: what forward received is kept in the
// state. A key/value head goes to every rank whose query heads use it, and its gradients from there
// are added in rank order.
//
// Ring (Liu et al. 2023, arXiv 2310.01889). Keys and values go around the ranks of equal ulysses
// index, to the next ring index in every step. In step s the part of ring index j holds the block
// of j - s; while it computes with it, the block of the next step travels. Partial results are
// merged in the order of the steps. Backward sends the blocks around again; gradients of keys and
// values follow in fp32, one step behind, and come home in the last step. Blocks that no query here
// may see cost nothing but their passage.
//
// Rows of a part are ordered by sequence, its front piece before its back piece. With causal
// attention each pair of parts is therefore one span a sequence. Query part i against key part j:
//
//     i = j   all rows, causal in the order of the rows
//     i > j   all queries see all front keys, and no back key
//     i < j   the back queries see all keys, the front queries none
//
// All members call forward and backward the same number of times, also those without tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/model/sequence_attention.hpp"
#include "core/model/sharding.hpp"

namespace dcp::model {

class ShardedAttention final : public SequenceAttention {
public:
    // For one step; both outlive this. The group has ulysses * ring ranks: ShapeError otherwise.
    ShardedAttention(comm::Communicator& group, const StepLayout& layout);

    // The micro-batch's spans are not used: the layout knows them. The Ulysses degree must divide
    // the query heads, and T be what the layout gives this rank: ShapeError otherwise.
    void forward(Queue& queue,
                 Arena& arena,
                 const MicroBatch& batch,
                 const AttentionShape& shape,
                 ConstTensor qkv_TN,
                 Tensor o_TN,
                 Tensor state) override;
    void backward(Queue& queue,
                  Arena& arena,
                  const MicroBatch& batch,
                  const AttentionShape& shape,
                  ConstTensor qkv_TN,
                  ConstTensor o_TN,
                  ConstTensor state,
                  ConstTensor d_o_TN,
                  Tensor d_qkv_TN) override;

    bool keeps_qkv() const override { return layout_.ulysses() > 1; }
    std::int64_t state_bytes(const AttentionShape& shape,
                             DType dtype,
                             std::int64_t T) const override;
    std::int64_t forward_scratch_bytes(const Queue& queue,
                                       const AttentionShape& shape,
                                       DType dtype,
                                       std::int64_t T) const override;
    std::int64_t backward_scratch_bytes(const Queue& queue,
                                        const AttentionShape& shape,
                                        DType dtype,
                                        std::int64_t T) const override;

private:
    struct Call;  // what the parts of one forward or backward share

    void check_call(const AttentionShape& shape, std::int64_t T) const;

    // Ulysses. A row exchange turns tokens into heads or back; `width` is the features of a token
    // at one rank.
    void exchange_row(
        Call& call, ConstTensor send, Tensor receive, std::int64_t width, bool to_heads);
    void send_heads(Call& call, ConstTensor qkv_TN, Tensor part_qkv);
    void receive_output(Call& call, ConstTensor part_o, Tensor o_TN);
    void send_output_gradient(Call& call, ConstTensor d_o_TN, Tensor part_d_o);
    void receive_gradients(Call& call, ConstTensor part_d_qkv, Tensor d_qkv_TN);

    // Ring. What is passed on in a step are the rows of the part that is here then.
    std::span<const kernels::AttentionSpan> spans(int key_part, bool causal) const;
    int part_at(int step) const;
    comm::Pending pass_on(Call& call, const Tensor& block, int step, const Tensor& buffer);
    void forward_part(Call& call, ConstTensor qkv, Tensor o, Tensor lse);
    void backward_part(
        Call& call, ConstTensor qkv, ConstTensor o, ConstTensor lse, ConstTensor d_o, Tensor d_qkv);

    comm::Communicator& group_;
    const StepLayout& layout_;
    int ulysses_index_;
    int ring_index_;
    std::vector<std::vector<kernels::AttentionSpan>> causal_spans_;  // by ring index of the keys
    std::vector<std::vector<kernels::AttentionSpan>> full_spans_;
    std::vector<std::int64_t> send_counts_, receive_counts_;  // of the exchange under way
    std::vector<ConstTensor> terms_;
};

// For planning: the most that any rank of a group needs when each holds at most T tokens of the
// micro-batch, whatever the lengths of its sequences.
class LargestShard final : public AttentionBytes {
public:
    LargestShard(int ulysses, int ring) : ulysses_(ulysses), ring_(ring) {}

    bool keeps_qkv() const override { return ulysses_ > 1; }
    std::int64_t state_bytes(const AttentionShape& shape,
                             DType dtype,
                             std::int64_t T) const override;
    std::int64_t forward_scratch_bytes(const Queue& queue,
                                       const AttentionShape& shape,
                                       DType dtype,
                                       std::int64_t T) const override;
    std::int64_t backward_scratch_bytes(const Queue& queue,
                                        const AttentionShape& shape,
                                        DType dtype,
                                        std::int64_t T) const override;

private:
    int ulysses_;
    int ring_;
};

}  // namespace dcp::model
