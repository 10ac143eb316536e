#include "core/train/batch_loader.hpp"

#include "core/base/copy.hpp"

namespace dcp::train {

const model::MicroBatch& BatchLoader::load(Queue& queue,
                                           Arena& arena,
                                           std::span<const std::int64_t> sequences,
                                           std::span<const float> weights) {
    whole_.clear();
    for (std::size_t index = 0; index < sequences.size(); ++index) {
        whole_.push_back({.sequence = static_cast<std::int32_t>(index),
                          .position = 0,
                          .count = table_.tokens(sequences[index])});
    }
    return load(queue, arena, sequences, weights, whole_);
}

const model::MicroBatch& BatchLoader::load(Queue& queue,
                                           Arena& arena,
                                           std::span<const std::int64_t> sequences,
                                           std::span<const float> weights,
                                           std::span<const model::Piece> pieces) {
    data::load_packed(table_, sequences, packed_);
    local_.tokens_T.clear();
    local_.targets_T.clear();
    local_.positions_T.clear();
    weights_T_.clear();
    batch_.spans.clear();
    for (const model::Piece& piece : pieces) {
        const auto sequence = static_cast<std::size_t>(piece.sequence);
        const std::int64_t from = packed_.cu_seqlens[sequence] + piece.position;
        const std::int64_t begin = local_.num_tokens();
        const auto append = [&](auto& to, const auto& all) {
            to.insert(to.end(), all.begin() + from, all.begin() + from + piece.count);
        };
        append(local_.tokens_T, packed_.tokens_T);
        append(local_.targets_T, packed_.targets_T);
        append(local_.positions_T, packed_.positions_T);
        weights_T_.insert(weights_T_.end(), static_cast<std::size_t>(piece.count),
                          weights[sequence]);
        batch_.spans.push_back({.q_begin = begin,
                                .q_count = piece.count,
                                .k_begin = begin,
                                .k_count = piece.count,
                                .q_offset = 0});
    }
    const std::int64_t T = local_.num_tokens();
    const auto put = [&](const char* name, DType dtype, const auto& values) {
        const Tensor tensor = arena.allocate(name, MemoryCategory::kActivations, dtype, {T});
        copy_to_device(queue, tensor, std::as_bytes(std::span(values)));
        return tensor;
    };
    batch_.tokens_T = put("tokens", DType::kInt32, local_.tokens_T);
    batch_.targets_T = put("targets", DType::kInt32, local_.targets_T);
    batch_.positions_T = put("positions", DType::kInt32, local_.positions_T);
    batch_.weights_T = put("loss weights", DType::kFloat32, weights_T_);
    return batch_;
}

std::int64_t BatchLoader::bytes(std::int64_t T) {
    return 3 * Arena::padded_bytes(DType::kInt32, {T}) + Arena::padded_bytes(DType::kFloat32, {T});
}

}  // namespace dcp::train
