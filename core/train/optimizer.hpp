// AdamW over the flat parameter array: decay on the part that holds matrices, none on norms and
// biases.
#pragma once

#include <cstdint>

#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/config/config.hpp"
#include "core/model/parameters.hpp"

namespace dcp::train {

class Optimizer {
public:
    // Allocates both moments and zeroes them.
    Optimizer(const config::OptimizerConfig& config,
              const model::ParameterLayout& layout,
              Queue& queue,
              Arena& arena);

    // Norm of all gradients together; NaN or infinity when any of them is.
    double global_norm(Queue& queue, Arena& arena, ConstTensor gradients) const;

    // What gradients are multiplied by so that their norm does not exceed optimizer.clip.
    double clip_factor(double norm) const;

    void step(Queue& queue,
              Tensor parameters,
              ConstTensor gradients,
              double learning_rate,
              double gradient_scale);

private:
    config::OptimizerConfig config_;
    std::int64_t decaying_elems_;
    Tensor first_moments_;
    Tensor second_moments_;
    std::int64_t steps_ = 0;
};

}  // namespace dcp::train
