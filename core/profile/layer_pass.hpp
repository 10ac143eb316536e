// Timed passes through parts of a model, on the ranks of one group.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.hpp"
#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/model/sharding.hpp"
#include "core/model/transformer.hpp"
#include "core/profile/request.hpp"

namespace dcp::profile {

struct LayerSeconds {
    double forward = 0;
    double backward = 0;
    double recompute = 0;  // forward again, for what is saved alone
    double pass = 0;       // everything, the layer that warms up included
};

class LayerPass {
public:
    LayerPass(model::Transformer& model, Queue& queue, Arena& arena)
        : model_(model), queue_(queue), arena_(arena) {}

    // From here on layers are timed by what the processors did for this process: where ranks take
    // turns on them, a turn may end in any phase.
    void count_processor_time() { counts_processor_time_ = true; }

    // Mean of `passes` passes over two layers: the first runs forward and warms up, the second is
    // timed forward, forward again where `recomputes`, and backward. Pass i uses the layers
    // first_layer + i and the next, counted round the model's. Collective over the group.
    LayerSeconds run_layers(const Request& request,
                            comm::Communicator& group,
                            std::int64_t first_layer,
                            int passes,
                            bool recomputes);

    // Mean seconds of passes over two layers of one sequence of T tokens, on this rank alone: work
    // that is always the same, to see how fast the machine is.
    double run_reference(std::int64_t T, int passes);

    // Mean seconds of the model without its layers, forward and backward, on T tokens.
    double run_ends(std::int64_t T, int passes);

private:
    double now() const;
    LayerSeconds run_pieces(std::span<const model::Piece> pieces,
                            model::SequenceAttention& attention,
                            std::int64_t first_layer,
                            int passes,
                            bool recomputes);
    LayerSeconds run_pair(model::PassContext& pass, std::int64_t first_layer, bool recomputes);

    model::Transformer& model_;
    Queue& queue_;
    Arena& arena_;
    model::LocalAttention local_attention_;
    bool counts_processor_time_ = false;
};

}  // namespace dcp::profile
