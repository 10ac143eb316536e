#include "core/train/evaluator.hpp"

#include <algorithm>
#include <vector>

#include "core/base/copy.hpp"
#include "core/data/packing.hpp"

namespace dcp::train {

namespace {

// Sequences are packed this many at a time: enough for full micro-batches, few enough that results
// appear as they are made.
constexpr std::size_t kChunkSequences = 4096;

}  // namespace

LossTotal Evaluator::run(Queue& queue,
                         Arena& arena,
                         std::span<const std::int64_t> sequences,
                         const Report& report) {
    LossTotal total;
    std::vector<std::int64_t> lengths;
    std::vector<double> loss_sums;
    for (std::size_t begin = 0; begin < sequences.size(); begin += kChunkSequences) {
        const auto chunk =
            sequences.subspan(begin, std::min(kChunkSequences, sequences.size() - begin));
        lengths.clear();
        for (const std::int64_t sequence : chunk) {
            lengths.push_back(table_.tokens(sequence));
        }
        loss_sums.assign(chunk.size(), 0.0);
        for (const auto& indices : data::pack(lengths, micro_batch_tokens_)) {
            std::vector<std::int64_t> ids;
            for (const std::int64_t index : indices) {
                ids.push_back(chunk[static_cast<std::size_t>(index)]);
            }
            std::vector<double> sums(ids.size());
            run_micro_batch(queue, arena, ids, sums);
            for (std::size_t place = 0; place < indices.size(); ++place) {
                loss_sums[static_cast<std::size_t>(indices[place])] = sums[place];
            }
        }
        for (std::size_t index = 0; index < chunk.size(); ++index) {
            total.loss_sum += loss_sums[index];
            total.tokens += lengths[index];
            if (report) {
                report(chunk[index], lengths[index], loss_sums[index]);
            }
        }
    }
    return total;
}

void Evaluator::run_micro_batch(Queue& queue,
                                Arena& arena,
                                std::span<const std::int64_t> sequences,
                                std::span<double> loss_sums) {
    const Arena::Scope scratch(arena);
    const std::vector<float> weights(sequences.size(), 1.0F);
    const model::MicroBatch& batch = loader_.load(queue, arena, sequences, weights);
    const Tensor loss_T = arena.allocate("losses", MemoryCategory::kActivations, DType::kFloat32,
                                         {batch.num_tokens()});
    model_.evaluate_micro_batch(queue, arena, batch, loss_T);
    host_losses_.resize(static_cast<std::size_t>(batch.num_tokens()));
    copy_to_host(queue, std::as_writable_bytes(std::span(host_losses_)), loss_T);
    for (std::size_t index = 0; index < sequences.size(); ++index) {
        const kernels::AttentionSpan& span = batch.spans[index];
        double sum = 0;
        for (std::int64_t token = span.q_begin; token < span.q_begin + span.q_count; ++token) {
            sum += static_cast<double>(host_losses_[static_cast<std::size_t>(token)]);
        }
        loss_sums[index] = sum;
    }
}

}  // namespace dcp::train
