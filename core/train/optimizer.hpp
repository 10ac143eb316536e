// AdamW over the flat parameter array, shared by the ranks of the world (ZeRO-1, Rajbhandari et al.
// 2019, arXiv 1910.02054): each rank sums the gradients of one part of the array, keeps the moments
// of that part, updates it, and hands it out again. Decay on the part that holds matrices, none on
// norms and biases. All functions but clip_factor are collective over the world.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/config/config.hpp"
#include "core/model/parameters.hpp"
#include "core/train/world.hpp"

namespace dcp::train {

class Optimizer {
public:
    // Allocates both moments of this rank's part and zeroes them.
    Optimizer(const config::OptimizerConfig& config,
              const model::ParameterLayout& layout,
              World& world,
              Queue& queue,
              Arena& arena);

    // Sums the gradients of all ranks, never averages: the part of this rank is complete
    // afterwards, the others are not touched.
    void reduce(Queue& queue, Arena& arena, Tensor gradients) const;

    // Norm of all gradients together, after reduce(); NaN or infinity when any of them is. The same
    // on all ranks.
    double global_norm(Queue& queue, Arena& arena, ConstTensor gradients) const;

    // What gradients are multiplied by so that their norm does not exceed optimizer.clip.
    double clip_factor(double norm) const;

    // Updates this rank's part, then gathers the parts of all.
    void step(Queue& queue,
              Tensor parameters,
              ConstTensor gradients,
              double learning_rate,
              double gradient_scale);

    // The work of step() without its effect, to be timed: before the first step, with gradients
    // that are all 0.
    void rehearse_step(Queue& queue, Tensor parameters, ConstTensor gradients);

    // What reduce() pushes onto the arena at most.
    std::int64_t scratch_bytes() const;

private:
    config::OptimizerConfig config_;
    comm::Communicator& world_;
    std::int64_t decaying_elems_;
    std::vector<std::int64_t> part_elems_;  // of every rank
    std::int64_t begin_ = 0;                // of this rank's part
    std::int64_t count_ = 0;
    Tensor first_moments_;
    Tensor second_moments_;
    std::int64_t steps_ = 0;
};

}  // namespace dcp::train
