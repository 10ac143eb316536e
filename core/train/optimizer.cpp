#include "core/train/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "comm/control.hpp"
#include "core/base/copy.hpp"
#include "kernels/optimizer.hpp"

namespace dcp::train {

namespace {

// Equal parts of whole cache lines; the last ones may be shorter or empty.
std::vector<std::int64_t> even_parts(std::int64_t elems, int ranks) {
    constexpr std::int64_t kLineElems = 16;
    const std::int64_t part = (elems + ranks * kLineElems - 1) / (ranks * kLineElems) * kLineElems;
    std::vector<std::int64_t> parts;
    for (int rank = 0; rank < ranks; ++rank) {
        parts.push_back(std::clamp<std::int64_t>(elems - rank * part, 0, part));
    }
    return parts;
}

Tensor bytes(Arena& arena, const char* name, MemoryCategory category, std::int64_t count) {
    return arena.allocate(name, category, DType::kUInt8, {count});
}

}  // namespace

Optimizer::Optimizer(const config::OptimizerConfig& config,
                     const model::ParameterLayout& layout,
                     World& world,
                     Queue& queue,
                     Arena& arena)
    : config_(config),
      world_(*world.all),
      decaying_elems_(layout.decaying_elems()),
      part_elems_(even_parts(layout.flat_elems(), world.size())) {
    for (int rank = 0; rank < world.rank(); ++rank) {
        begin_ += part_elems_[static_cast<std::size_t>(rank)];
    }
    count_ = part_elems_[static_cast<std::size_t>(world.rank())];
    first_moments_ =
        arena.allocate("first moments", MemoryCategory::kOptimizer, DType::kFloat32, {count_});
    second_moments_ =
        arena.allocate("second moments", MemoryCategory::kOptimizer, DType::kFloat32, {count_});
    kernels::fill_zero(queue, first_moments_);
    kernels::fill_zero(queue, second_moments_);
}

std::int64_t Optimizer::scratch_bytes() const {
    return Arena::padded_bytes(DType::kUInt8, {world_.reduce_scatter_workspace_bytes(
                                                  comm::Number::kFloat32, part_elems_)});
}

void Optimizer::reduce(Queue& queue, Arena& arena, Tensor gradients) const {
    if (world_.group_size() == 1) {
        return;
    }
    const Arena::Scope scratch(arena);
    const Tensor workspace =
        bytes(arena, "reduction workspace", MemoryCategory::kCommunication,
              world_.reduce_scatter_workspace_bytes(comm::Number::kFloat32, part_elems_));
    world_.reduce_scatter(queue, gradients, gradients.rows(begin_, count_), part_elems_, workspace);
}

double Optimizer::global_norm(Queue& queue, Arena& arena, ConstTensor gradients) const {
    const Arena::Scope scratch(arena);
    const Tensor out = bytes(arena, "squared norm", MemoryCategory::kWorkspace, sizeof(double));
    const Tensor workspace = bytes(arena, "norm workspace", MemoryCategory::kWorkspace,
                                   static_cast<std::int64_t>(kernels::sum_workspace_bytes(count_)));
    kernels::sum_of_squares(queue, gradients.rows(begin_, count_), out, workspace);
    double sum = read_float64(queue, out);
    comm::all_reduce_values(queue, world_, std::span(&sum, 1), comm::ReduceOp::kSum);
    return std::sqrt(sum);
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
    // [begin, end) of the flat array, as far as it is in this rank's part.
    const auto update = [&](std::int64_t begin, std::int64_t end, double decay) {
        begin = std::max(begin, begin_);
        const std::int64_t count = std::min(end, begin_ + count_) - begin;
        if (count <= 0) {
            return;
        }
        kernels::adamw(queue, {.parameters = parameters.rows(begin, count),
                               .gradients = gradients.rows(begin, count),
                               .first_moments = first_moments_.rows(begin - begin_, count),
                               .second_moments = second_moments_.rows(begin - begin_, count),
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
    if (world_.group_size() > 1) {
        world_.all_gather(queue, parameters.rows(begin_, count_), parameters, part_elems_);
    }
}

// Moments of 0 stay 0, and a rate of 0 moves nothing.
void Optimizer::rehearse_step(Queue& queue, Tensor parameters, ConstTensor gradients) {
    step(queue, parameters, gradients, /*learning_rate=*/0, /*gradient_scale=*/1);
    steps_ = 0;
}

}  // namespace dcp::train
