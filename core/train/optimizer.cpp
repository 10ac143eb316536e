#include "core/train/optimizer.hpp"

#include <cmath>

#include "core/base/copy.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::train {

Optimizer::Optimizer(const config::OptimizerConfig& config,
                     const model::ParameterLayout& layout,
                     Queue& queue,
                     Arena& arena)
    : config_(config), decaying_elems_(layout.decaying_elems()) {
    const Shape flat{layout.flat_elems()};
    first_moments_ =
        arena.allocate("first moments", MemoryCategory::kOptimizer, DType::kFloat32, flat);
    second_moments_ =
        arena.allocate("second moments", MemoryCategory::kOptimizer, DType::kFloat32, flat);
    kernels::fill_zero(queue, first_moments_);
    kernels::fill_zero(queue, second_moments_);
}

double Optimizer::global_norm(Queue& queue, Arena& arena, ConstTensor gradients) const {
    const Arena::Scope scratch(arena);
    const auto bytes =
        static_cast<std::int64_t>(kernels::sum_workspace_bytes(gradients.num_elems()));
    const Tensor out =
        arena.allocate("squared norm", MemoryCategory::kWorkspace, DType::kUInt8, {sizeof(double)});
    const Tensor workspace =
        arena.allocate("norm workspace", MemoryCategory::kWorkspace, DType::kUInt8, {bytes});
    kernels::sum_of_squares(queue, gradients, out, workspace);
    return std::sqrt(read_float64(queue, out));
}

double Optimizer::clip_factor(double norm) const {
    return config_.clip > 0 && norm > config_.clip ? config_.clip / norm : 1.0;
}

void Optimizer::step(Queue& queue,
                     Tensor parameters,
                     ConstTensor gradients,
                     double learning_rate,
                     double gradient_scale) {
    ++steps_;
    const auto update = [&](std::int64_t begin, std::int64_t end, double decay) {
        const std::int64_t count = end - begin;
        kernels::adamw(queue, {.parameters = parameters.rows(begin, count),
                               .gradients = gradients.rows(begin, count),
                               .first_moments = first_moments_.rows(begin, count),
                               .second_moments = second_moments_.rows(begin, count),
                               .learning_rate = learning_rate,
                               .beta1 = config_.betas[0],
                               .beta2 = config_.betas[1],
                               .epsilon = config_.eps,
                               .decay = decay,
                               .gradient_scale = gradient_scale,
                               .step = steps_});
    };
    update(0, decaying_elems_, config_.weight_decay);
    update(decaying_elems_, parameters.num_elems(), 0);
}

}  // namespace dcp::train
