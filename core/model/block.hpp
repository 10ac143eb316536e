// A block: what a transformer is a stack of. The model walks its blocks forward, then backward, and
// knows nothing else about them; a text model has one kind, a video model will alternate two
// (spatial, temporal) with a conditioning input.
//
// Life of one block in one micro-batch (core/model/transformer.cpp):
//
//     allocate_saved      pushes the tensors that the backward pass needs onto the arena
//     forward(x, y)       fills them and y
//     ... later blocks, loss, their backward ...
//     backward(x, d_x)    d_x holds the gradient of y and receives the gradient of x; parameter
//     gradients are added up
//
// A block that recomputes runs the first two inside a scope of their own, and again right before
// backward, then with an empty y: only what is saved is made again. The same operations on the same
// inputs: bitwise the same results.
#pragma once

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/base/tensor.hpp"
#include "core/model/micro_batch.hpp"
#include "core/model/sequence_attention.hpp"

namespace dcp::model {

struct PassContext {
    Queue& queue;
    Arena& arena;
    const MicroBatch& batch;
    SequenceAttention& attention;  // how queries meet keys that may live on other ranks
    ConstTensor conditioning;      // what modulates a video model's blocks; empty for text
};

class Block {
public:
    Block() = default;
    virtual ~Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    Block(Block&&) = delete;
    Block& operator=(Block&&) = delete;

    virtual void allocate_saved(PassContext& pass) = 0;
    virtual void forward(PassContext& pass, ConstTensor x_TC, Tensor y_TC) = 0;
    virtual void backward(PassContext& pass, ConstTensor x_TC, Tensor d_x_TC) = 0;

    // Exact bytes of allocate_saved for T tokens, and the most that forward or backward pushes on
    // top of it.
    virtual std::int64_t saved_bytes(const AttentionBytes& attention, std::int64_t T) const = 0;
    virtual std::int64_t forward_scratch_bytes(const Queue& queue,
                                               const AttentionBytes& attention,
                                               std::int64_t T) const = 0;
    virtual std::int64_t backward_scratch_bytes(const Queue& queue,
                                                const AttentionBytes& attention,
                                                std::int64_t T) const = 0;

    // Turns fp32 masters into what the kernels multiply; after every update.
    virtual void prepare(Queue& queue) = 0;
};

}  // namespace dcp::model
