// Many ranks, any plan, the same result (design section 5): every rank trains the same batches once
// with the others under random plans and once alone, and compares.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "tests/mpi/train_support.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "comm/control.hpp"
#include "comm/local/local_communicator.hpp"
#include "core/base/rng.hpp"
#include "core/train/trainer.hpp"
#include "kernels/linear.hpp"

using namespace dcp;
using test::DatasetFolder;
using test::kVocab;
using test::Ranks;
using test::small_config;
using test::write_documents;

namespace {

// The gradients of all ranks together, on every rank.
std::vector<float> gathered_gradients(train::Trainer& trainer, Ranks& ranks) {
    const Tensor own = trainer.model().gradients();
    std::vector<float> all(static_cast<std::size_t>(own.num_elems()));
    const std::int64_t lines = (own.num_elems() + ranks.size() * 16 - 1) / (ranks.size() * 16);
    std::vector<std::int64_t> parts;
    for (int rank = 0; rank < ranks.size(); ++rank) {
        parts.push_back(
            std::clamp<std::int64_t>(own.num_elems() - rank * lines * 16, 0, lines * 16));
    }
    const std::int64_t begin = std::min(own.num_elems(), ranks.all->group_rank() * lines * 16);
    ranks.all->all_gather(ranks.queue,
                          own.rows(begin, parts[static_cast<std::size_t>(ranks.all->group_rank())]),
                          Tensor(all.data(), DType::kFloat32, {own.num_elems()}), parts);
    return all;
}

// The largest relative difference of a tensor, by norms.
double worst_difference(const model::ParameterLayout& layout,
                        const std::vector<float>& a,
                        const float* b) {
    double worst = 0;
    for (const model::ParameterSlot& slot : layout.slots()) {
        double difference = 0;
        double norm = 0;
        for (std::int64_t i = slot.offset; i < slot.offset + slot.shape.num_elems(); ++i) {
            const auto value = static_cast<double>(b[i]);
            difference += std::pow(static_cast<double>(a[static_cast<std::size_t>(i)]) - value, 2);
            norm += value * value;
        }
        worst = std::max(worst, norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference));
    }
    return worst;
}

void compare_with_one_rank(const config::Config& config, int iterations, double tolerance) {
    Ranks ranks;
    train::Trainer together(config, ranks.world());
    auto alone_config = config;
    alone_config.planner.name = "dcp";
    train::Trainer alone(alone_config);
    std::set<int> degrees;
    for (int iteration = 1; iteration <= iterations; ++iteration) {
        const auto report = together.run_iteration(iteration);
        const auto expected = alone.run_iteration(iteration);
        for (const auto& [degree, steps] : report.steps_by_degree) {
            degrees.insert(degree);
        }
        INFO("iteration " << iteration);
        CHECK(report.sequences == expected.sequences);
        CHECK(report.peak_bytes <= together.predicted_peak_bytes());
        CHECK(std::abs(report.loss - expected.loss) <= tolerance * std::abs(expected.loss));
        CHECK(worst_difference(alone.model().layout(), gathered_gradients(together, ranks),
                               alone.model().gradients().as<float>()) <= tolerance);
    }
    CHECK(static_cast<int>(degrees.size()) == ranks.size());  // every degree was tried
}

// Bytes of this process that are in memory, whoever asked for them.
double resident_bytes() {
    std::ifstream file("/proc/self/statm");
    double size = 0;
    double resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("random plans of many ranks give the loss and the gradients of one rank") {
    const DatasetFolder folder;
    write_documents(folder / "text", 200);
    auto config = small_config(folder / "text");
    SECTION("causal, grouped queries") {
        compare_with_one_rank(config, 50, 1e-5);
    }
    SECTION("full attention, batch smaller than the world") {
        config.model.causal = false;
        config.model.kv_heads = 6;
        config.batch.sequences = 2;
        compare_with_one_rank(config, 40, 1e-5);
    }
    SECTION("layer norm, tied embeddings, mean over samples") {
        config.model.norm = config::NormKind::kLayerNorm;
        config.model.activation = config::Activation::kGelu;
        config.model.tie_embeddings = true;
        config.model.heads = 3;
        config.model.kv_heads = 1;
        config.model.head_dim = 8;
        config.run.loss_normalization = config::LossNormalization::kSample;
        compare_with_one_rank(config, 30, 1e-5);
    }
}

TEST_CASE("in bf16 they agree as far as its rounding allows") {
    if (!kernels::supports_dtype(Queue::cpu(1), DType::kBFloat16)) {
        return;
    }
    const DatasetFolder folder;
    write_documents(folder / "text", 200);
    auto config = small_config(folder / "text");
    config.run.dtype = config::ComputeType::kBFloat16;
    // Each tensor's gradient is a sum over hundreds of tokens of products that were rounded to 8
    // bits a dozen times on their way; roundings differ where sums are cut differently.
    compare_with_one_rank(config, 20, 12 * epsilon(DType::kBFloat16));
}

TEST_CASE("lengths that are awkward to share: 698 and 2999 tokens, one token against 1000") {
    const DatasetFolder folder;
    test::documents_of(test::random_documents({699, 3000, 2, 1001, 8, 4, 6}, kVocab))
        .write(folder / "text");
    auto config = small_config(folder / "text");
    config.data.max_tokens = 4096;
    config.batch.micro_batch_tokens = 8192;
    config.batch.sequences = 7;
    config.model.layers = 1;
    compare_with_one_rank(config, 8, 1e-5);
}

TEST_CASE("the same plan twice gives the same bits") {
    const DatasetFolder folder;
    write_documents(folder / "text", 200);
    auto config = small_config(folder / "text");
    config.optimizer.lr = 1e-3;
    std::vector<double> losses[2];
    for (auto& run : losses) {
        Ranks ranks;
        train::Trainer trainer(config, ranks.world());
        for (int iteration = 1; iteration <= 5; ++iteration) {
            const auto report = trainer.run_iteration(iteration);
            run.push_back(report.loss);
            run.push_back(report.grad_norm);
        }
    }
    CHECK(std::memcmp(losses[0].data(), losses[1].data(), losses[0].size() * sizeof(double)) == 0);
}

TEST_CASE("loss curves of 20 steps are those of one rank under every planner") {
    const DatasetFolder folder;
    write_documents(folder / "text", 200);
    auto config = small_config(folder / "text");
    config.optimizer.lr = 1e-3;
    config.planner.name = GENERATE("bucket", "packed", "random", "dcp");
    Ranks ranks;
    train::Trainer together(config, ranks.world());
    config.planner.name = "dcp";
    train::Trainer alone(config);
    for (int iteration = 1; iteration <= 20; ++iteration) {
        const auto report = together.run_iteration(iteration);
        CHECK(report.loss == Approx(alone.run_iteration(iteration).loss).epsilon(1e-4));
    }
}

TEST_CASE("where memory is short plans share and recompute, within the budget") {
    const DatasetFolder folder;
    write_documents(folder / "text", 600);
    auto config = small_config(folder / "text");
    config.model.layers = 4;
    config.optimizer.lr = 1e-3;
    config.batch.micro_batch_tokens = config::kAutomatic;
    config.data.max_tokens = 600;
    config.batch.sequences = 68;  // all, the longest among them
    config.planner.degrees = "1";
    config.planner.name = "packed";
    Ranks ranks;
    train::Trainer alone(config);
    const std::int64_t most = train::Trainer(config, ranks.world()).predicted_peak_bytes();
    config.planner.recompute = "yes";
    config.model.recompute_layers = 4;
    const std::int64_t least = train::Trainer(config, ranks.world()).predicted_peak_bytes();
    config.planner.recompute = "auto";
    config.model.recompute_layers = 0;
    config.memory.budget = least + (most - least) / 8;
    config.planner.name = GENERATE("dcp", "dcp-intra", "packed");
    train::Trainer tight(config, ranks.world());
    int recomputing = 0;
    for (int iteration = 1; iteration <= 3; ++iteration) {
        const auto report = tight.run_iteration(iteration);
        CHECK(report.loss == Approx(alone.run_iteration(iteration).loss).epsilon(1e-5));
        CHECK(report.peak_bytes <= config.memory.budget);
        CHECK(static_cast<double>(report.peak_bytes) <= report.predicted_peak_bytes);
        recomputing += static_cast<int>(report.recomputing_steps);
    }
    INFO(config.planner.name);
    CHECK(recomputing > 0);
}

TEST_CASE("what steps cost is measured, alike on all ranks, and leaves training as it is") {
    const DatasetFolder folder;
    write_documents(folder / "text", 200);
    auto config = small_config(folder / "text");
    config.planner.name = "dcp";
    config.profile = config::kNoProfile;
    Ranks ranks;
    train::Trainer measured(config, ranks.world());
    train::Trainer plain(config, ranks.world());
    measured.measure_costs();
    const train::ModelRates& rates = measured.rates();
    CHECK(rates.step_seconds > 0);
    CHECK(rates.product_flops_per_second > 0);
    CHECK(rates.attention_flops_per_second > 0);
    int degree = 1;
    for (const train::ExchangeRate& exchange : rates.exchanges) {
        degree *= 2;
        CHECK(exchange.degree == degree);
        CHECK(exchange.latency_seconds > 0);
        CHECK(exchange.bytes_per_second > 0);
    }
    CHECK(degree <= ranks.size());
    CHECK(2 * degree > ranks.size());
    for (const double rate : {rates.step_seconds, rates.product_flops_per_second}) {
        const auto everywhere = comm::all_gather_value(ranks.queue, *ranks.all, rate);
        CHECK(std::ranges::count(everywhere, rate) == ranks.size());
    }
    CHECK(measured.run_iteration(1).loss == Approx(plain.run_iteration(1).loss).epsilon(1e-5));
}

TEST_CASE("1000 iterations of random lengths: memory flat, communicators bounded", "[long]") {
    constexpr int kIterations = 1000;
    const DatasetFolder folder;
    write_documents(folder / "text", 60);
    auto config = small_config(folder / "text");
    config.data.max_tokens = 60;
    config.batch.micro_batch_tokens = 20;  // the longest needs three ranks
    config.model.hidden = 12;
    config.model.head_dim = 2;
    config.model.layers = 1;
    config.planner.name = GENERATE("random", "dcp");
    INFO(config.planner.name);
    Ranks ranks;
    train::Trainer trainer(config, ranks.world());
    std::int64_t reserved = 0;
    double resident = 0;
    std::set<int> degrees;
    for (int iteration = 1; iteration <= kIterations; ++iteration) {
        const auto report = trainer.run_iteration(iteration);
        for (const auto& [degree, steps] : report.steps_by_degree) {
            degrees.insert(degree);
        }
        if (iteration == kIterations / 2) {
            reserved = trainer.arena().reserved_bytes();
            resident = resident_bytes();
        }
    }
    CHECK(trainer.groups().num_live() <= 32);
    CHECK(degrees.size() > 1);
    CHECK(static_cast<double>(trainer.arena().reserved_bytes()) <=
          1.01 * static_cast<double>(reserved));
    CHECK(trainer.arena().reserved_bytes() <= trainer.predicted_peak_bytes());
    // What the arena does not count: plans, records, the message library.
    constexpr double kAllowance = 2 << 20;
    CHECK(resident_bytes() <= 1.01 * resident + kAllowance);
}
