#include "core/train/batch_loader.hpp"

#include "core/base/copy.hpp"

namespace dcp::train {

const model::MicroBatch& BatchLoader::load(Queue& queue,
                                           Arena& arena,
                                           std::span<const std::int64_t> sequences,
                                           std::span<const float> weights) {
    data::load_packed(table_, sequences, packed_);
    const std::int64_t T = packed_.num_tokens();
    weights_T_.resize(static_cast<std::size_t>(T));
    batch_.spans.clear();
    for (std::size_t index = 0; index < sequences.size(); ++index) {
        const std::int64_t begin = packed_.cu_seqlens[index];
        const std::int64_t count = packed_.cu_seqlens[index + 1] - begin;
        batch_.spans.push_back({.q_begin = begin,
                                .q_count = count,
                                .k_begin = begin,
                                .k_count = count,
                                .q_offset = 0});
        std::fill_n(weights_T_.begin() + begin, count, weights[index]);
    }
    const auto put = [&](const char* name, DType dtype, const auto& values) {
        const Tensor tensor = arena.allocate(name, MemoryCategory::kActivations, dtype, {T});
        copy_to_device(queue, tensor, std::as_bytes(std::span(values)));
        return tensor;
    };
    batch_.tokens_T = put("tokens", DType::kInt32, packed_.tokens_T);
    batch_.targets_T = put("targets", DType::kInt32, packed_.targets_T);
    batch_.positions_T = put("positions", DType::kInt32, packed_.positions_T);
    batch_.weights_T = put("loss weights", DType::kFloat32, weights_T_);
    return batch_;
}

std::int64_t BatchLoader::bytes(std::int64_t T) {
    return 3 * Arena::padded_bytes(DType::kInt32, {T}) + Arena::padded_bytes(DType::kFloat32, {T});
}

}  // namespace dcp::train
