// What planners count with while training, against what the allocator will count.
#include "tests/support/small_model.hpp"
#include <catch2/catch.hpp>

#include "core/train/optimizer.hpp"
#include "core/train/step_memory.hpp"

using namespace dcp;
using train::DepthBytes;
using train::StepMemory;

TEST_CASE("planners count with no fewer bytes than a step needs, and not with many more",
          "[unit][train][memory]") {
    Queue queue = Queue::cpu(1);
    Arena arena(std::int64_t{256} << 20);
    config::ModelConfig config = test::small_model();
    config.layers = 3;
    const DType compute = GENERATE(DType::kFloat32, DType::kBFloat16);
    if (!kernels::supports_dtype(queue, compute)) {
        return;
    }
    constexpr std::int64_t kRankTokens = 2000;
    const model::Transformer model(config, compute, kRankTokens, model::Purpose::kTraining, queue,
                                   arena);
    const std::vector<int> degrees = GENERATE(std::vector{1}, std::vector{1, 2, 3, 4});
    const std::int64_t shallowest = GENERATE(0, 1);
    const StepMemory memory(queue, model, config, degrees, arena.current_bytes(), 5000);
    const plan::Heads heads{.query = static_cast<int>(config.heads),
                            .key_value = static_cast<int>(config.kv_heads)};
    // A budget that holds everything bends no line.
    const std::vector<DepthBytes> lines = memory.lines(0, kRankTokens, shallowest);
    int too_few = 0;
    double most_over = 0;
    for (std::int64_t tokens = 1; tokens <= kRankTokens; tokens += 1 + tokens / 100) {
        for (const int degree : degrees) {
            for (const plan::Strategy& strategy : plan::possible_strategies(degree, heads)) {
                for (std::int64_t depth = 0; depth <= config.layers; ++depth) {
                    const DepthBytes& line = lines[static_cast<std::size_t>(depth)];
                    const double said = line.fixed + line.per_token * static_cast<double>(tokens);
                    const auto needed = static_cast<double>(
                        memory.peak_bytes(tokens, strategy, std::max(depth, shallowest)));
                    too_few += said < needed ? 1 : 0;
                    most_over = std::max(most_over, degree == 1 ? said / needed - 1 : 0);
                }
            }
        }
    }
    CHECK(too_few == 0);
    CHECK(most_over < (degrees.size() == 1 ? 0.03 : 1.0));

    // Where ranks hold no more than the line of a budget allows, that is what planners can place.
    const auto budget = static_cast<std::int64_t>(lines[3].fixed + 1000 * lines[3].per_token);
    const std::int64_t fits = memory.most_tokens(budget, kRankTokens, 3, true);
    CHECK(fits <= memory.most_tokens(budget, kRankTokens, 3, false));
    const DepthBytes tight = memory.lines(budget, fits, 0)[3];
    CHECK(tight.fixed + tight.per_token * static_cast<double>(fits) <= static_cast<double>(budget));
    CHECK(tight.fixed + tight.per_token * static_cast<double>(fits + 1) >
          static_cast<double>(budget));
}
