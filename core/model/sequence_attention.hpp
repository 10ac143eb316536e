// How attention sees a whole sequence when the tokens here may be a part of it. On one rank they
// are all here, and this is the kernel alone; with sequence parallelism an implementation exchanges
// heads (Ulysses) or keys and values (ring) around it.
//
// What backward needs beyond its arguments is the implementation's own: forward writes it to
// `state`, bytes that the caller allocates and keeps without knowing what they mean.
#pragma once

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "core/model/micro_batch.hpp"

namespace dcp::model {

struct AttentionShape {
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    bool causal = true;
};

// What attention needs of memory, for a rank that holds T tokens of a micro-batch.
class AttentionBytes {
public:
    AttentionBytes() = default;
    virtual ~AttentionBytes() = default;
    AttentionBytes(const AttentionBytes&) = delete;
    AttentionBytes& operator=(const AttentionBytes&) = delete;
    AttentionBytes(AttentionBytes&&) = delete;
    AttentionBytes& operator=(AttentionBytes&&) = delete;

    // True: the state holds what backward needs of qkv, which gets an empty qkv_TN then.
    virtual bool keeps_qkv() const { return false; }
    virtual std::int64_t state_bytes(const AttentionShape& shape,
                                     DType dtype,
                                     std::int64_t T) const = 0;

    // The most that forward and backward push onto the arena.
    virtual std::int64_t forward_scratch_bytes(const Queue& queue,
                                               const AttentionShape& shape,
                                               DType dtype,
                                               std::int64_t T) const = 0;
    virtual std::int64_t backward_scratch_bytes(const Queue& queue,
                                                const AttentionShape& shape,
                                                DType dtype,
                                                std::int64_t T) const = 0;
};

class SequenceAttention : public AttentionBytes {
public:
    // qkv_TN: [T, (H + 2G) D], queries, keys, values, rotated already. o_TN: [T, H D]. state:
    // uint8, state_bytes of them.
    virtual void forward(Queue& queue,
                         Arena& arena,
                         const MicroBatch& batch,
                         const AttentionShape& shape,
                         ConstTensor qkv_TN,
                         Tensor o_TN,
                         Tensor state) = 0;
    virtual void backward(Queue& queue,
                          Arena& arena,
                          const MicroBatch& batch,
                          const AttentionShape& shape,
                          ConstTensor qkv_TN,
                          ConstTensor o_TN,
                          ConstTensor state,
                          ConstTensor d_o_TN,
                          Tensor d_qkv_TN) = 0;
};

// Every sequence of the micro-batch is whole here.
class LocalAttention final : public SequenceAttention {
public:
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
};

}  // namespace dcp::model
