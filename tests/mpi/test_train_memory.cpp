// Memory that is short while training: what was checked before the first iteration holds whatever
// plans; where a rank has too little all the same, all ranks hear of it, plan anew and lose
// nothing.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/mpi/train_support.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/train/prediction.hpp"
#include "core/train/step_memory.hpp"

using namespace dcp;
using test::DatasetFolder;
using test::Ranks;

namespace {

// Leaves so many bytes of the budget.
void fill(Arena& arena, std::int64_t left) {
    const std::int64_t bytes = arena.budget_bytes() - arena.current_bytes() - left;
    arena.allocate("ballast", MemoryCategory::kWorkspace, DType::kUInt8, {bytes});
}

config::Config planned_config(const std::string& prefix, const std::string& planner) {
    config::Config config = test::small_config(prefix);
    config.optimizer.lr = 1e-3;
    config.planner.name = planner;
    return config;
}

void write_cost_file(const std::string& path, const std::string& degrees) {
    std::ofstream(path)
        << "format: dcp-cost-1\nname: constants\nlayers: 2\nranks_per_node: 64\n"
        << "degrees: " << degrees << "\n"
        << "time: {fixed: 1e-3, per_token: 1e-5, per_token_squared: 1e-9, forward_share: 0.3}\n"
           "communication: {bytes_per_token: 1000, bandwidth: {2: 1e9}}\n"
           "memory: {budget: 1e9, static: 1e6, layer_bytes_per_token: 1000, "
           "checkpoint_bytes_per_token: 100}\n";
}

// Five iterations with faults on one rank beside five without.
void compare_with_undisturbed(const config::Config& config,
                              int faulty_rank,
                              const std::function<train::Trainer::StepFaults(int& iteration)>& make,
                              int expected_replays) {
    Ranks ranks;
    train::Trainer disturbed(config, ranks.world());
    train::Trainer plain(config, ranks.world());
    int iteration = 0;
    if (ranks.all->group_rank() == faulty_rank) {
        disturbed.set_faults(make(iteration));
    }
    int replays = 0;
    for (iteration = 1; iteration <= 5; ++iteration) {
        const auto report = disturbed.run_iteration(iteration);
        const auto expected = plain.run_iteration(iteration);
        INFO("iteration " << iteration);
        CHECK(report.sequences == expected.sequences);
        CHECK(report.loss == Approx(expected.loss).epsilon(1e-5));
        CHECK(report.grad_norm == Approx(expected.grad_norm).epsilon(1e-4));
        std::size_t parts = 0;
        for (const plan::Step& step : report.plan.steps) {
            parts += step.world_ranks.size();
        }
        CHECK(report.steps.size() == parts);  // those of the plan that went through, once
        CHECK(report.micro_batches == static_cast<std::int64_t>(report.plan.steps.size()));
        replays += report.replays;
    }
    CHECK(replays == expected_replays);
    const auto history = static_cast<double>(disturbed.groups().history_hash() >> 16);
    const auto everywhere = comm::all_gather_value(ranks.queue, *ranks.all, history);
    CHECK(std::ranges::count(everywhere, history) == ranks.size());
}

}  // namespace

TEST_CASE("a step that does not fit on one rank is planned anew, and nothing is lost") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 200);
    const auto config = planned_config(folder / "text", GENERATE("dcp", "packed", "random"));
    INFO(config.planner.name);
    bool is_done = false;
    SECTION("seen before it starts") {
        compare_with_undisturbed(
            config, 1,
            [&](int& iteration) {
                return train::Trainer::StepFaults{.before_asking =
                                                      [&](Arena& arena, int) {
                                                          if (iteration >= 2 && !is_done) {
                                                              is_done = true;
                                                              fill(arena, 1024);
                                                          }
                                                      },
                                                  .after_asking = {}};
            },
            1);
    }
    SECTION("found in its middle") {
        compare_with_undisturbed(
            config, 0,
            [&](int& iteration) {
                return train::Trainer::StepFaults{.before_asking = {},
                                                  .after_asking = [&](Arena& arena, int) {
                                                      if (iteration >= 3 && !is_done) {
                                                          is_done = true;
                                                          fill(arena, 1024);
                                                      }
                                                  }};
            },
            1);
    }
}

TEST_CASE("memory that stays short is planned with from then on") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 200);
    auto config = planned_config(folder / "text", "dcp");
    config.batch.sequences = 20;
    config.memory.budget = std::int64_t{24} << 20;
    Ranks ranks;
    train::Trainer trainer(config, ranks.world());
    train::Trainer plain(config, ranks.world());
    if (ranks.all->group_rank() == ranks.size() - 1) {
        // What a rank needs beside its parameters for three quarters of a full micro-batch.
        const std::int64_t left =
            (trainer.predicted_peak_bytes() - trainer.arena().current_bytes()) * 3 / 4;
        trainer.set_faults({.before_asking = [left](Arena& arena, int) { fill(arena, left); },
                            .after_asking = {}});
    }
    int replays = 0;
    for (int iteration = 1; iteration <= 6; ++iteration) {
        const auto report = trainer.run_iteration(iteration);
        CHECK(report.loss == Approx(plain.run_iteration(iteration).loss).epsilon(1e-5));
        replays = report.replays;
    }
    CHECK(replays == 0);  // by now it is known
}

TEST_CASE("where no plan is left all ranks end with one message") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 200);
    const auto config = planned_config(folder / "text", "dcp");
    Ranks ranks;
    train::Trainer trainer(config, ranks.world());
    if (ranks.all->group_rank() == 0) {
        trainer.set_faults(
            {.before_asking = [](Arena& arena, int) { fill(arena, 64); }, .after_asking = {}});
    }
    std::string message;
    try {
        trainer.run_iteration(1);
    } catch (const Error& error) {
        message = error.what();
        CHECK(error.exit_code() == kExitFailedRun);
        CHECK(error.is_shared());
    }
    INFO(message);
    CHECK(message.find("iteration 1: out of memory budget: rank 0 has") == 0);
}

TEST_CASE("a batch that cannot be planned ends all ranks, planned ahead or not") {
    Ranks ranks;
    config::Config config = test::small_config("unused");
    config.planner.name = GENERATE("dcp", "dcp-inter", "dcp-intra", "bucket", "packed", "random");
    INFO(config.planner.name);
    Arena arena(std::int64_t{64} << 20);
    model::Transformer model(config.model, DType::kFloat32, 1000, model::Purpose::kTraining,
                             ranks.queue, arena);
    const std::vector<int> degrees = plan::any_degrees(ranks.size());
    const train::StepMemory memory(ranks.queue, model, config.model, degrees, arena.current_bytes(),
                                   0);
    const std::int64_t budget = memory.most_bytes(100, 0);
    const train::World world = ranks.world();
    train::PlanSource plans(config, world,
                            {.rank_tokens = 100,
                             .longest_tokens = 100,
                             .budget_bytes = budget,
                             .memory = &memory,
                             .rates = {.bytes = memory.lines(budget, 100, 0)}});
    const train::GlobalBatch fits{.sequences = {0, 1}, .lengths = {50, 60}, .tokens = 110};
    const std::int64_t too_long = 200 * ranks.size();
    const train::GlobalBatch does_not{.sequences = {2}, .lengths = {too_long}, .tokens = too_long};
    const auto message_of = [&](std::int64_t iteration, const auto& now, const auto& next) {
        try {
            plans.take(ranks.queue, iteration, now, next);
        } catch (const Error& error) {
            CHECK(error.is_shared());
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(message_of(1, fits, does_not).empty());  // its plan is made by now, or fails
    CHECK(message_of(2, does_not, fits).find("fits nowhere") != std::string::npos);
    CHECK(message_of(3, does_not, fits).find("fits nowhere") != std::string::npos);
    CHECK(message_of(4, fits, fits).empty());
}

TEST_CASE("the check at the start counts the SP degrees that plans may use, and no others") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 400);
    auto config = planned_config(folder / "text", GENERATE("dcp", "packed"));
    config.data.max_tokens = 400;
    config.batch.micro_batch_tokens = config::kAutomatic;
    Ranks ranks;
    const auto refusal = [&](const config::Config& asked) -> std::string {
        try {
            train::Trainer(asked, ranks.world());
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "";
    };
    const auto least_budget = [&](config::Config asked) {
        const std::int64_t enough = asked.memory.budget;
        std::int64_t too_little = 0;
        while (asked.memory.budget - too_little > 1024) {
            const std::int64_t accepted = asked.memory.budget;
            asked.memory.budget = too_little + (accepted - too_little) / 2;
            if (!refusal(asked).empty()) {
                too_little = asked.memory.budget;
                asked.memory.budget = accepted;
            }
        }
        REQUIRE(asked.memory.budget < enough);
        return asked.memory.budget;
    };
    auto alone = config;
    alone.planner.degrees = "[1]";
    const std::int64_t shared_budget = least_budget(config);
    const std::int64_t alone_budget = least_budget(alone);
    REQUIRE(shared_budget < alone_budget);

    config.memory.budget = alone.memory.budget = (shared_budget + alone_budget) / 2;
    CHECK(refusal(config).empty());
    const std::string message = refusal(alone);
    INFO(message);
    REQUIRE(message.find("the longest sequence has 400 tokens, but 1 rank of ") == 0);
    const std::size_t holds = message.find(" hold ");
    REQUIRE(holds != std::string::npos);
    const std::int64_t fits = std::stoll(message.substr(holds + 6));
    CHECK(
        message.find("raise memory.budget, lower data.max_tokens, or allow an SP degree above 1") !=
        std::string::npos);
    // What it says is so, but for a few tokens.
    alone.data.max_tokens = fits + 8;
    CHECK_FALSE(refusal(alone).empty());
    alone.data.max_tokens = fits;
    CHECK(refusal(alone).empty());
    train::Trainer trainer(alone, ranks.world());
    for (int iteration = 1; iteration <= 3; ++iteration) {
        CHECK(trainer.run_iteration(iteration).steps_by_degree.rbegin()->first == 1);
    }

    // A cost file may allow fewer degrees than the configuration.
    write_cost_file(folder / "cost.yaml", "[1]");
    config.planner.cost = folder / "cost.yaml";
    const std::string of_file = refusal(config);
    INFO(of_file);
    CHECK(of_file.find("above 1 on these ") != std::string::npos);
    CHECK(of_file.find(config.planner.cost) != std::string::npos);
    write_cost_file(folder / "cost.yaml", "any");
    CHECK(refusal(config).empty());
}

TEST_CASE("what was checked before the first iteration holds under every planner") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 400);
    write_cost_file(folder / "cost.yaml", "any");
    auto config = test::small_config(folder / "text");
    config.data.max_tokens = 400;
    config.batch.sequences = 68;  // all, the longest among them
    config.batch.micro_batch_tokens = 150;
    config.planner.recompute = GENERATE("no", "auto", "yes");
    config.model.recompute_layers = config.planner.recompute == "yes" ? 2 : 0;
    config.planner.cost = GENERATE(as<std::string>{}, "", "cost.yaml");
    config.planner.cost = config.planner.cost.empty() ? "" : folder / config.planner.cost;
    Ranks ranks;
    config.batch.micro_batch_tokens = 400 / ranks.size() + 1;
    // Hardly more than the check at the start asks for.
    const auto is_refused = [&] {
        try {
            train::Trainer(config, ranks.world());
        } catch (const ConfigError&) {
            return true;
        }
        return false;
    };
    config.memory.budget = train::Trainer(config, ranks.world()).predicted_peak_bytes() / 2;
    CHECK(is_refused());
    for (std::int64_t step = config.memory.budget; step > 1024; step /= 2) {
        config.memory.budget += step;
        config.memory.budget -= is_refused() ? 0 : step;
    }
    config.memory.budget += 2048;
    REQUIRE_FALSE(is_refused());
    const std::int64_t budget = config.memory.budget;
    for (const char* planner : {"dcp", "dcp-inter", "dcp-intra", "bucket", "packed", "random"}) {
        config.planner.name = planner;
        INFO(planner << ", recompute " << config.planner.recompute << ", " << config.planner.cost);
        train::Trainer trainer(config, ranks.world());
        const auto report = trainer.run_iteration(1);
        CHECK(report.peak_bytes <= budget);
        CHECK(report.replays == 0);
        CHECK(static_cast<double>(report.peak_bytes) <= report.predicted_peak_bytes);
        for (const double error : train::step_errors(report).bytes) {
            CHECK(error >= 0);
            CHECK(error <= 0.03);
        }
    }
}
