#include "core/train/weights.hpp"

#include <span>
#include <vector>

#include "core/base/copy.hpp"
#include "core/model/hf_layout.hpp"

namespace dcp::train {

void save_weights(const std::string& folder,
                  std::int64_t max_tokens,
                  Queue& queue,
                  const model::Transformer& model) {
    std::vector<float> values;
    const auto source = [&](const std::string& name) {
        const model::ParameterSlot& slot = model.layout().slot(name);
        values.resize(static_cast<std::size_t>(slot.shape.num_elems()));
        copy_to_host(queue, std::as_writable_bytes(std::span(values)),
                     model::view(model.parameters(), slot));
        return std::span<const float>(values);
    };
    model::save_weights(folder, {.model = model.config(), .max_tokens = max_tokens}, source);
}

void load_weights(const std::string& folder, Queue& queue, const model::Transformer& model) {
    // The whole flat array, so that the gaps between tensors are zero as well.
    std::vector<float> values(static_cast<std::size_t>(model.layout().flat_elems()), 0.0F);
    const auto target = [&](const std::string& name, const Shape& shape) {
        return std::span<float>(values.data() + model.layout().slot(name).offset,
                                static_cast<std::size_t>(shape.num_elems()));
    };
    model::load_weights(folder, &model.config(), target);
    copy_to_device(queue, model.parameters(), std::as_bytes(std::span<const float>(values)));
}

}  // namespace dcp::train
