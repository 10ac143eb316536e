#include "core/profile/layer_pass.hpp"

#include <chrono>
#include <ctime>
#include <span>
#include <vector>

#include "core/base/copy.hpp"
#include "core/model/sharded_attention.hpp"

namespace dcp::profile {

namespace {

double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double processor_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// The pieces of sequences that a rank holds, as the trainer would load them; tokens are arbitrary.
model::MicroBatch make_batch(Queue& queue,
                             Arena& arena,
                             std::span<const model::Piece> pieces,
                             std::int64_t vocab) {
    model::MicroBatch batch;
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> positions;
    for (const model::Piece& piece : pieces) {
        const auto begin = static_cast<std::int64_t>(tokens.size());
        for (std::int64_t i = 0; i < piece.count; ++i) {
            // Neighbours far apart in the vocabulary, as in text.
            constexpr std::int64_t kStride = 2'654'435'761;
            const std::int64_t position = piece.position + i;
            tokens.push_back(
                static_cast<std::int32_t>((position + piece.sequence) * kStride % vocab));
            positions.push_back(static_cast<std::int32_t>(position));
        }
        batch.spans.push_back(
            {.q_begin = begin, .q_count = piece.count, .k_begin = begin, .k_count = piece.count});
    }
    const auto T = static_cast<std::int64_t>(tokens.size());
    const std::vector<float> weights(tokens.size(), 1.0F);
    const auto put = [&](const char* name, DType dtype, const auto& values) {
        const Tensor tensor = arena.allocate(name, MemoryCategory::kActivations, dtype, {T});
        copy_to_device(queue, tensor, std::as_bytes(std::span(values)));
        return tensor;
    };
    batch.tokens_T = put("tokens", DType::kInt32, tokens);
    batch.targets_T = put("targets", DType::kInt32, tokens);
    batch.positions_T = put("positions", DType::kInt32, positions);
    batch.weights_T = put("loss weights", DType::kFloat32, weights);
    return batch;
}

std::vector<model::Piece> whole_sequences(std::span<const std::int64_t> lengths) {
    std::vector<model::Piece> pieces;
    for (std::size_t index = 0; index < lengths.size(); ++index) {
        pieces.push_back({.sequence = static_cast<std::int32_t>(index), .count = lengths[index]});
    }
    return pieces;
}

}  // namespace

double LayerPass::now() const {
    return counts_processor_time_ ? processor_seconds() : wall_seconds();
}

LayerSeconds LayerPass::run_layers(const Request& request,
                                   comm::Communicator& group,
                                   std::int64_t first_layer,
                                   int passes,
                                   bool recomputes) {
    const std::vector<std::int64_t> lengths = request.lengths();
    if (group.group_size() == 1) {
        return run_pieces(whole_sequences(lengths), local_attention_, first_layer, passes,
                          recomputes);
    }
    const model::StepLayout layout(lengths, request.strategy.ulysses, request.strategy.ring);
    model::ShardedAttention attention(group, layout);
    return run_pieces(layout.pieces(group.group_rank()), attention, first_layer, passes,
                      recomputes);
}

double LayerPass::run_reference(std::int64_t T, int passes) {
    const std::vector<std::int64_t> lengths{T};
    return run_pieces(whole_sequences(lengths), local_attention_, /*first_layer=*/0, passes,
                      /*recomputes=*/false)
        .pass;
}

LayerSeconds LayerPass::run_pieces(std::span<const model::Piece> pieces,
                                   model::SequenceAttention& attention,
                                   std::int64_t first_layer,
                                   int passes,
                                   bool recomputes) {
    const Arena::Scope scratch(arena_);
    const model::MicroBatch batch = make_batch(queue_, arena_, pieces, model_.config().vocab);
    model::PassContext pass{.queue = queue_,
                            .arena = arena_,
                            .batch = batch,
                            .attention = attention,
                            .conditioning = {}};
    LayerSeconds mean;
    for (int i = 0; i < passes; ++i) {
        const LayerSeconds one = run_pair(pass, first_layer + i, recomputes);
        mean.forward += one.forward / passes;
        mean.backward += one.backward / passes;
        mean.recompute += one.recompute / passes;
        mean.pass += one.pass / passes;
    }
    return mean;
}

LayerSeconds LayerPass::run_pair(model::PassContext& pass,
                                 std::int64_t first_layer,
                                 bool recomputes) {
    const double start = now();
    const std::int64_t layers = model_.config().layers;
    model::Block& warm = model_.block(first_layer % layers);
    model::Block& measured = model_.block((first_layer + 1) % layers);
    const Arena::Scope scratch(arena_);
    const auto allocate = [&](const char* name) {
        return arena_.allocate(name, MemoryCategory::kActivations, model_.compute(),
                               {pass.batch.num_tokens(), model_.config().hidden});
    };
    const Tensor d_x_TC = allocate("d_x");
    const Tensor x_TC = allocate("x");
    const Tensor y_TC = allocate("x");
    model_.embed(queue_, pass.batch.tokens_T, x_TC);
    {
        const Arena::Scope once(arena_);
        warm.allocate_saved(pass);
        warm.forward(pass, x_TC, y_TC);
    }
    measured.allocate_saved(pass);
    LayerSeconds seconds;
    const auto time = [&](double& phase, const auto& action) {
        queue_.synchronize();
        const double begin = now();
        action();
        queue_.synchronize();
        phase = now() - begin;
    };
    time(seconds.forward, [&] { measured.forward(pass, y_TC, x_TC); });
    if (recomputes) {
        time(seconds.recompute, [&] { measured.forward(pass, y_TC, {}); });
    }
    model_.embed(queue_, pass.batch.tokens_T, d_x_TC);  // a gradient of no particular value
    time(seconds.backward, [&] { measured.backward(pass, y_TC, d_x_TC); });
    seconds.pass = now() - start;
    return seconds;
}

double LayerPass::run_ends(std::int64_t T, int passes) {
    const Arena::Scope scratch(arena_);
    const std::vector<std::int64_t> lengths{T};
    const model::MicroBatch batch =
        make_batch(queue_, arena_, whole_sequences(lengths), model_.config().vocab);
    const Tensor loss_T =
        arena_.allocate("losses", MemoryCategory::kActivations, DType::kFloat32, {T});
    queue_.synchronize();
    const double start = wall_seconds();
    for (int i = 0; i < passes; ++i) {
        model_.train_ends(queue_, arena_, batch, loss_T);
    }
    queue_.synchronize();
    return (wall_seconds() - start) / passes;
}

}  // namespace dcp::profile
