#include "core/train/rates_probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <vector>

#include "comm/control.hpp"
#include "core/base/copy.hpp"

namespace dcp::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 3;  // the median counts, after one that only warms up

template <class Action>
double median_seconds(const Action& action) {
    action();
    std::array<double, kRepeats> seconds{};
    for (double& each : seconds) {
        const auto start = Clock::now();
        action();
        each = std::chrono::duration<double>(Clock::now() - start).count();
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kRepeats / 2];
}

double mean_of_all(Queue& queue, comm::Communicator& world, double value) {
    comm::all_reduce_values(queue, world, std::span(&value, 1), comm::ReduceOp::kSum);
    return value / world.group_size();
}

}  // namespace

RatesProbe::RatesProbe(const config::ModelConfig& config,
                       Queue& queue,
                       Arena& arena,
                       const World& world,
                       comm::GroupCache& groups,
                       model::Transformer& model)
    : config_(config),
      queue_(queue),
      arena_(arena),
      world_(world),
      groups_(groups),
      model_(model) {}

ModelRates RatesProbe::measure(std::int64_t max_tokens,
                               std::int64_t recompute_layers,
                               ModelRates rates) {
    recompute_layers_ = recompute_layers;
    measure_products(max_tokens, rates);
    rates.exchanges.clear();
    for (int degree = 2; degree <= world_.size(); degree *= 2) {
        rates.exchanges.push_back(measure_exchange(degree));
    }
    return rates;
}

// Forward and backward of sequences of equal length, mean over ranks.
double RatesProbe::step_seconds(std::int64_t num_sequences, std::int64_t tokens) {
    const Arena::Scope scratch(arena_);
    const std::int64_t T = num_sequences * tokens;
    std::vector<std::int32_t> zeros(static_cast<std::size_t>(T), 0);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(T));
    const std::vector<float> weights(static_cast<std::size_t>(T), 0.0F);
    model::MicroBatch batch;
    for (std::int64_t sequence = 0; sequence < num_sequences; ++sequence) {
        const std::int64_t begin = sequence * tokens;
        std::iota(positions.begin() + begin, positions.begin() + begin + tokens, 0);
        batch.spans.push_back(
            {.q_begin = begin, .q_count = tokens, .k_begin = begin, .k_count = tokens});
    }
    const auto put = [&](const char* name, DType dtype, const auto& values) {
        const Tensor tensor = arena_.allocate(name, MemoryCategory::kActivations, dtype, {T});
        copy_to_device(queue_, tensor, std::as_bytes(std::span(values)));
        return tensor;
    };
    batch.tokens_T = put("tokens", DType::kInt32, zeros);
    batch.targets_T = put("targets", DType::kInt32, zeros);
    batch.positions_T = put("positions", DType::kInt32, positions);
    batch.weights_T = put("loss weights", DType::kFloat32, weights);
    const Tensor loss_T =
        arena_.allocate("losses", MemoryCategory::kActivations, DType::kFloat32, {T});
    const double seconds = median_seconds([&] {
        model_.train_micro_batch(queue_, arena_, batch, attention_, recompute_layers_, loss_T);
        queue_.synchronize();
    });
    return mean_of_all(queue_, *world_.all, seconds);
}

// Seconds = fixed + products / rate + attention / rate: the same tokens in short sequences and in
// one, large enough to be timed.
void RatesProbe::measure_products(std::int64_t max_tokens, ModelRates& rates) {
    constexpr double kLongEnough = 0.05;
    constexpr std::int64_t kShort = 32;
    constexpr std::int64_t kLargest = 8192;
    const std::int64_t most = std::min(max_tokens, kLargest);
    const double fixed = step_seconds(1, 1);
    std::int64_t tokens = std::min<std::int64_t>(most, 4 * kShort);
    double whole = step_seconds(1, tokens);
    while (whole < kLongEnough && 2 * tokens <= most) {
        tokens *= 2;
        whole = step_seconds(1, tokens);
    }
    const std::int64_t pieces = std::max<std::int64_t>(1, tokens / kShort);
    const double cut = step_seconds(pieces, tokens / pieces);
    const ModelFlops flops(config_);
    const auto T = static_cast<double>(tokens);
    const double product_flops = flops.token(recompute_layers_) * T;
    const double whole_flops = flops.squared_token(recompute_layers_) * T * T;
    const double more_flops = whole_flops * (1 - 1 / static_cast<double>(pieces));
    // What attention costs shows in the difference of the two. Where that is too small to be told
    // from noise, an operation of attention counts as much as one of the products, ten times as
    // much at most.
    const double seconds = std::max(whole - fixed, 1e-9);
    const double of_any = seconds / (product_flops + whole_flops);
    const double of_attention =
        std::clamp(more_flops > 0 ? (whole - cut) / more_flops : of_any, of_any, 10 * of_any);
    const double of_products =
        std::max((seconds - of_attention * whole_flops) / product_flops, of_any / 10);
    rates.step_seconds = fixed;
    rates.product_flops_per_second = 1 / of_products;
    rates.attention_flops_per_second = 1 / of_attention;
}

// All groups of this degree at once, as in training; ranks that are left over wait for them.
ExchangeRate RatesProbe::measure_exchange(int degree) {
    constexpr std::int64_t kBlockBytes = 256 << 10;
    ExchangeRate rate{.degree = degree};
    comm::Communicator* mine = nullptr;
    for (int first = 0; first + degree <= world_.size(); first += degree) {
        std::vector<int> ranks(static_cast<std::size_t>(degree));
        std::iota(ranks.begin(), ranks.end(), first);
        if (comm::Communicator* group = groups_.use(ranks); group != nullptr) {
            mine = group;
        }
    }
    std::array<double, 2> slowest{};
    if (mine != nullptr) {
        slowest = {exchange_seconds(*mine, 64), exchange_seconds(*mine, kBlockBytes)};
    }
    comm::all_reduce_values(queue_, *world_.all, slowest, comm::ReduceOp::kMax);
    const double bytes = static_cast<double>(degree - 1) * static_cast<double>(kBlockBytes);
    rate.latency_seconds = slowest[0];
    rate.bytes_per_second = bytes / std::max(slowest[1] - slowest[0], slowest[1] / 10);
    return rate;
}

double RatesProbe::exchange_seconds(comm::Communicator& group, std::int64_t block_bytes) {
    const Arena::Scope scratch(arena_);
    const std::int64_t bytes = block_bytes * group.group_size();
    const Tensor send =
        arena_.allocate("probe sends", MemoryCategory::kCommunication, DType::kUInt8, {bytes});
    const Tensor receive =
        arena_.allocate("probe receives", MemoryCategory::kCommunication, DType::kUInt8, {bytes});
    copy_to_device(queue_, send, std::vector<std::byte>(static_cast<std::size_t>(bytes)));
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.group_size()),
                                           block_bytes);
    return median_seconds([&] {
        group.all_to_all(queue_, send, counts, receive, counts);
        queue_.synchronize();
    });
}

}  // namespace dcp::train
