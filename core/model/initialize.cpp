// Initial weights: a pure function of (seed, tensor name, element).
#include <algorithm>
#include <cmath>
#include <span>
#include <thread>
#include <vector>

#include "core/base/copy.hpp"
#include "core/base/rng.hpp"
#include "core/model/transformer.hpp"

namespace dcp::model {

namespace {

constexpr double kStandardDeviation = 0.02;

double deviation(const ParameterSlot& slot, std::int64_t layers) {
    const bool writes_residual =
        slot.name.ends_with("o_proj.weight") || slot.name.ends_with("down_proj.weight");
    return writes_residual ? kStandardDeviation / std::sqrt(2.0 * static_cast<double>(layers))
                           : kStandardDeviation;
}

void fill_normal(std::span<float> values, const CounterRng& rng, double scale, int threads) {
    const std::size_t share =
        (values.size() + static_cast<std::size_t>(threads) - 1) / static_cast<std::size_t>(threads);
    std::vector<std::jthread> workers;
    for (std::size_t begin = 0; begin < values.size(); begin += share) {
        workers.emplace_back([=] {
            for (std::size_t element = begin; element < std::min(values.size(), begin + share);
                 ++element) {
                values[element] = static_cast<float>(scale * rng.normal(element));
            }
        });
    }
}

}  // namespace

void Transformer::initialize(Queue& queue, std::uint64_t seed) {
    std::vector<float> values;
    // The gaps between tensors are part of the optimizer's arrays: zero now, zero gradients, zero
    // for ever.
    values.assign(static_cast<std::size_t>(layout_.flat_elems()), 0.0F);
    for (const ParameterSlot& slot : layout_.slots()) {
        const std::span<float> tensor(values.data() + slot.offset,
                                      static_cast<std::size_t>(slot.shape.num_elems()));
        if (slot.decays) {
            const CounterRng rng(seed, "initial weights", hash_name(slot.name));
            fill_normal(tensor, rng, deviation(slot, config_.layers), queue.threads());
        } else {
            std::fill(tensor.begin(), tensor.end(), slot.name.ends_with(".bias") ? 0.0F : 1.0F);
        }
    }
    copy_to_device(queue, parameters_, std::as_bytes(std::span<const float>(values)));
}

}  // namespace dcp::model
