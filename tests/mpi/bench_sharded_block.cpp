// What sharding a step costs: one block, forward and backward, of the same tokens in two ways. The
// p ranks work on p packs, either each on one of its own (degree 1) or all on one pack after the
// other (degree p, by every strategy). Run by hand, nothing is checked:
//
//     mpirun -np 2 bench_sharded_block [TOKENS] [LENGTH] [fp32|bf16]
//
// One thread a rank. Times are the shortest of several runs, the two ways in turn, behind
// a barrier, as rank 0 sees them.
#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "comm/mpi/mpi_session.hpp"
#include "core/model/sharded_attention.hpp"
#include "core/model/transformer_block.hpp"

using namespace dcp;
using namespace dcp::model;

namespace {

struct Bench {
    comm::MpiSession& session;
    DType dtype;
    std::unique_ptr<comm::Communicator> group = session.make_world();
    Queue queue = Queue::cpu(1);
    Arena arena{std::int64_t{4} << 30};
    config::ModelConfig config{};

    double seconds(const std::function<void()>& body) {
        group->barrier(queue);
        const auto start = std::chrono::steady_clock::now();
        body();
        group->barrier(queue);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
};

// Fills a tensor with small numbers of either type.
void fill(const Tensor& tensor) {
    for (std::int64_t i = 0; i < tensor.num_elems(); ++i) {
        const float value = static_cast<float>(i * 7919 % 1013 - 506) / 5000;
        if (tensor.dtype() == DType::kFloat32) {
            static_cast<float*>(tensor.data())[i] = value;
        } else {
            static_cast<BFloat16*>(tensor.data())[i] = BFloat16(value);
        }
    }
}

class Step {
public:
    Step(Bench& bench, Block& block, SequenceAttention& attention, std::span<const Piece> pieces)
        : bench_(bench), block_(block), attention_(attention) {
        std::int64_t row = 0;
        std::vector<std::int32_t> positions;
        for (const Piece& piece : pieces) {
            batch_.spans.push_back(
                {.q_begin = row, .q_count = piece.count, .k_begin = row, .k_count = piece.count});
            for (std::int64_t i = 0; i < piece.count; ++i) {
                positions.push_back(static_cast<std::int32_t>(piece.position + i));
            }
            row += piece.count;
        }
        const auto allocate = [&](DType dtype, Shape shape) {
            return bench.arena.allocate("bench", MemoryCategory::kActivations, dtype, shape);
        };
        const Tensor positions_T = allocate(DType::kInt32, {row});
        std::ranges::copy(positions, static_cast<std::int32_t*>(positions_T.data()));
        batch_.positions_T = positions_T;
        batch_.tokens_T = positions_T;
        x_TC_ = allocate(bench.dtype, {row, bench.config.hidden});
        y_TC_ = allocate(bench.dtype, {row, bench.config.hidden});
        fill(x_TC_);
    }

    void run() {
        const Arena::Scope scratch(bench_.arena);
        PassContext pass{.queue = bench_.queue,
                         .arena = bench_.arena,
                         .batch = batch_,
                         .attention = attention_,
                         .conditioning = {}};
        block_.allocate_saved(pass);
        block_.forward(pass, x_TC_, y_TC_);
        block_.backward(pass, x_TC_, y_TC_);
    }

private:
    Bench& bench_;
    Block& block_;
    SequenceAttention& attention_;
    MicroBatch batch_;
    Tensor x_TC_, y_TC_;
};

void compare(Bench& bench, std::int64_t tokens, std::int64_t length) {
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(tokens / length), length);
    const ParameterLayout layout(bench.config);
    const auto flat = [&] {
        return bench.arena.allocate("bench", MemoryCategory::kParameters, DType::kFloat32,
                                    {layout.flat_elems()});
    };
    const Tensor parameters = flat();
    fill(parameters);
    const Tensor gradients = flat();
    const Shape table{length, bench.config.head_dim / 2};
    const kernels::RopeTable rope{
        bench.arena.allocate("bench", MemoryCategory::kParameters, DType::kFloat32, table),
        bench.arena.allocate("bench", MemoryCategory::kParameters, DType::kFloat32, table)};
    kernels::rope_fill_table(bench.queue, rope, bench.config.rope_theta);
    TransformerBlock block(
        bench.config, bench.dtype, block_tensors(bench.config, layout, parameters, 0),
        block_tensors(bench.config, layout, gradients, 0), rope, bench.queue, bench.arena);
    block.prepare(bench.queue);

    const int p = bench.group->group_size();
    LocalAttention local;
    const StepLayout whole(lengths, 1, 1);
    Step alone(bench, block, local, whole.pieces(0));
    const bool speaks = bench.group->group_rank() == 0;
    for (int u = p; u >= 1; --u) {
        if (p % u != 0 || bench.config.heads % u != 0) {
            continue;
        }
        const Arena::Scope scope(bench.arena);
        const StepLayout shards(lengths, u, p / u);
        ShardedAttention attention(*bench.group, shards);
        Step step(bench, block, attention, shards.pieces(bench.group->group_rank()));
        const std::int64_t before = bench.group->traffic().total().sent_bytes;
        step.run();
        const std::int64_t sent = bench.group->traffic().total().sent_bytes - before;
        double degree_one = 1e9;
        double sharded = 1e9;
        double packing = 1e9;  // shortest of a step: row copies and sums, merging, exchanges
        double merging = 1e9;
        double exchanging = 1e9;
        for (int run = 0; run < 12; ++run) {
            degree_one = std::min(degree_one, bench.seconds([&] { alone.run(); }));
            OpProfile profile;
            bench.queue.set_profile(&profile);
            const double exchanged = bench.group->traffic().total().seconds;
            step.run();
            exchanging = std::min(exchanging, bench.group->traffic().total().seconds - exchanged);
            bench.queue.set_profile(nullptr);
            const auto spent = [&](std::string_view op) {
                const auto entry = profile.entries().find(op);
                return entry == profile.entries().end() ? 0 : entry->second.seconds;
            };
            packing = std::min(packing, spent("sum_rows"));
            merging = std::min(merging, spent("attention_merge"));
            sharded = std::min(sharded, bench.seconds([&] {
                for (int pack = 0; pack < p; ++pack) {
                    step.run();
                }
            }));
        }
        if (speaks) {
            fmt::print(
                "{} tokens in sequences of {}, {}: degree 1 {:.1f} ms; ulysses {} x ring {} "
                "{:.1f} ms ({:+.1f} %); in one step {:.2f} MB sent by a rank, exchanges {:.2f} ms, "
                "packing {:.2f} ms, merging {:.2f} ms\n",
                tokens, length, name(bench.dtype), degree_one * 1e3, u, p / u, sharded * 1e3,
                (sharded / degree_one - 1) * 100, static_cast<double>(sent) / 1e6, exchanging * 1e3,
                packing * 1e3, merging * 1e3);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    comm::MpiSession session;
    try {
        const std::vector<std::string> arguments(argv + 1, argv + argc);
        const auto number = [&](std::size_t index, std::int64_t otherwise) {
            return index < arguments.size() ? std::stoll(arguments[index]) : otherwise;
        };
        const bool is_bf16 = arguments.size() > 2 && arguments[2] == "bf16";
        Bench bench{.session = session, .dtype = is_bf16 ? DType::kBFloat16 : DType::kFloat32};
        compare(bench, number(0, 4096), number(1, 1024));
    } catch (const std::exception& error) {
        session.abort(error);
    }
}
