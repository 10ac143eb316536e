// Profiles in training on many ranks: they are the same everywhere, grow where new lengths come,
// and never promise fewer bytes than a step needs.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/mpi/train_support.hpp"
#include <catch2/catch.hpp>

#include "core/plan/measured_model.hpp"
#include "core/profile/cache.hpp"
#include "core/train/step_memory.hpp"
#include "kernels/linear.hpp"

using namespace dcp;
using test::DatasetFolder;
using test::Ranks;

namespace {

bool is_the_same_everywhere(const plan::Profile& profile, Ranks& ranks) {
    const std::string text = plan::to_json(profile);
    const auto hashes = comm::all_gather_value(ranks.queue, *ranks.all,
                                               comm::hash_bytes(std::as_bytes(std::span(text))));
    return std::ranges::count(hashes, hashes.front()) == ranks.size();
}

plan::MeasuredModel model_of(const plan::Profile& profile) {
    return {profile, profile.ranks_per_node, profile.ranks_per_node};
}

// Those of one curve every factor of four, the least and the most among them.
plan::Profile coarse(plan::Profile profile) {
    std::vector<plan::ProfilePoint> points;
    std::set<std::pair<int, int>> strategies;
    for (const plan::ProfilePoint& point : profile.points) {
        strategies.emplace(point.strategy.ulysses, point.strategy.ring);
    }
    for (const auto& [ulysses, ring] : strategies) {
        std::set<std::int64_t> tokens;
        for (const plan::ProfilePoint& point : profile.points) {
            if (point.strategy == plan::Strategy{ulysses, ring}) {
                tokens.insert(point.tokens);
            }
        }
        std::set<std::int64_t> kept{*tokens.begin(), *tokens.rbegin()};
        for (const std::int64_t each : tokens) {
            if (each >= 4 * *std::prev(kept.end(), 2) && each < *tokens.rbegin()) {
                kept.insert(each);
            }
        }
        std::ranges::copy_if(profile.points, std::back_inserter(points),
                             [&](const plan::ProfilePoint& point) {
                                 return point.strategy == plan::Strategy{ulysses, ring} &&
                                        kept.contains(point.tokens);
                             });
    }
    profile.points = points;
    return profile;
}

}  // namespace

TEST_CASE("a profile is the same on all ranks, and leaves training as it is") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 200);
    auto config = test::small_config(folder / "text");
    config.planner.name = "dcp";
    Ranks ranks;
    train::Trainer measured(config, ranks.world());
    train::Trainer plain(config, ranks.world());
    const std::int64_t held = measured.arena().current_bytes();
    train::ProfileSource& source = measured.measure_profile();
    CHECK(measured.arena().current_bytes() == held);
    std::set<int> degrees;
    for (const plan::ProfilePoint& point : source.profile().points) {
        degrees.insert(point.strategy.degree());
        CHECK(point.forward_seconds > 0);
        CHECK(point.backward_seconds > 0);
    }
    CHECK(static_cast<int>(degrees.size()) == ranks.size());
    // A point between two iterations, where there was none.
    const profile::Request request{.tokens = 77, .sequences = 2};
    const std::size_t before = source.profile().points.size();
    source.extend(std::span(&request, 1));
    REQUIRE(source.profile().points.size() == before + 1);
    CHECK(source.profile().points.back().tokens == 77);
    source.extend(std::span(&request, 1));
    CHECK(source.profile().points.size() == before + 1);
    CHECK(is_the_same_everywhere(source.profile(), ranks));
    CHECK(measured.run_iteration(1).loss == Approx(plain.run_iteration(1).loss).epsilon(1e-5));
}

TEST_CASE("between its points too a profile never promises fewer bytes than a step needs") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 600);
    auto config = test::small_config(folder / "text");
    config.model.layers = 3;
    config.data.max_tokens = 600;
    config.batch.micro_batch_tokens = 600;
    config.batch.sequences = 40;
    config.planner.name = "random";  // every strategy of a degree
    SECTION("narrow") {}
    SECTION("bf16, wide output") {
        if (!kernels::supports_dtype(Queue::cpu(1), DType::kBFloat16)) {
            return;
        }
        config.run.dtype = config::ComputeType::kBFloat16;
        config.model.vocab = 1000;
    }
    Ranks ranks;
    train::World world = ranks.world();
    train::Trainer trainer(config, world);
    const plan::Profile measured = trainer.measure_profile().profile();
    const plan::Profile sparse = coarse(measured);
    REQUIRE(sparse.points.size() < measured.points.size());

    Arena aside(config.memory.budget);
    const std::int64_t floor =
        train::Optimizer(config.optimizer, trainer.model().layout(), world, ranks.queue, aside)
            .scratch_bytes();
    const train::StepMemory memory(trainer.queue(), trainer.model(), config.model,
                                   plan::any_degrees(ranks.size()), trainer.arena().current_bytes(),
                                   floor);
    int too_few = 0;
    int compared = 0;
    for (const plan::Profile* profile : {&measured, &sparse}) {
        const plan::MeasuredModel model = model_of(*profile);
        std::set<std::pair<int, int>> strategies;
        for (const plan::ProfilePoint& point : profile->points) {
            strategies.emplace(point.strategy.ulysses, point.strategy.ring);
        }
        CHECK(static_cast<int>(strategies.size()) >= ranks.size());
        for (const auto& [ulysses, ring] : strategies) {
            const plan::Strategy strategy{ulysses, ring};
            const std::int64_t degree = strategy.degree();
            for (std::int64_t tokens = degree; tokens <= 600 * degree; tokens += 1 + tokens / 50) {
                for (int depth = 0; depth <= config.model.layers; ++depth) {
                    const double said =
                        model.cost({tokens, static_cast<double>(tokens)}, strategy, depth)
                            .peak_bytes;
                    const auto needed = static_cast<double>(
                        memory.peak_bytes((tokens + degree - 1) / degree, strategy, depth));
                    if (said < needed) {
                        ++too_few;
                        UNSCOPED_INFO(ulysses << " x " << ring << ", " << tokens
                                              << " tokens, depth " << depth << ": " << said
                                              << " of " << needed);
                    }
                    ++compared;
                }
            }
        }
    }
    CHECK(too_few == 0);
    CHECK(compared > 1000);
}

TEST_CASE("a run begins with how fast the machine is beside its profile") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 200);
    auto config = test::small_config(folder / "text");
    config.planner.name = "dcp";
    Ranks ranks;
    {
        train::Trainer trainer(config, ranks.world());
        plan::Profile profile = trainer.measure_profile().profile();
        if (profile.reference.tokens == 0) {
            return;  // ranks share processors here
        }
        // As if everything had been much faster, though not so much that it cannot be true.
        profile.reference.seconds /= 20;
        for (plan::ProfilePoint& point : profile.points) {
            point.forward_seconds /= 20;
            point.backward_seconds /= 20;
            point.recompute_seconds /= 20;
        }
        profile.fixed_seconds /= 20;
        profile.token_seconds /= 20;
        profile::store(folder / "profile.json", profile);
        profile.layers += 2;
        profile::store(folder / "deeper.json", profile);
    }
    config.profile = folder / "deeper.json";
    {
        train::Trainer trainer(config, ranks.world());
        CHECK_THROWS_WITH(trainer.measure_costs(),
                          Catch::Contains("deeper.json is about a model of"));
    }
    config.profile = folder / "profile.json";
    train::Trainer trainer(config, ranks.world());
    trainer.measure_costs();
    const auto report = trainer.run_iteration(1);
    CHECK(report.plan.makespan_seconds > 6 * report.correction.uncorrected_makespan_seconds);
}

TEST_CASE("a cost file limits SP degrees and strategies to those it knows") {
    const DatasetFolder folder;
    test::write_documents(folder / "text", 200);
    auto config = test::small_config(folder / "text");
    config.model.heads = config.model.kv_heads = 6;  // several strategies of two and three ranks
    config.planner.name = "dcp";
    Ranks ranks;
    {
        train::Trainer trainer(config, ranks.world());
        plan::Profile profile = trainer.measure_profile().profile();
        profile::store(folder / "all.json", profile);
        std::erase_if(profile.points,
                      [](const plan::ProfilePoint& point) { return point.strategy.degree() > 1; });
        profile::store(folder / "one.json", profile);
    }
    config.planner.cost = folder / "one.json";
    train::Trainer trainer(config, ranks.world());
    const auto report = trainer.run_iteration(1);
    CHECK(report.plan.makespan_seconds > 0);
    for (const plan::Step& step : report.plan.steps) {
        CHECK(step.degree() == 1);
    }
    // Of the preferred strategies alone.
    config.planner.name = "random";
    config.planner.cost = folder / "all.json";
    CHECK_THROWS_WITH(train::Trainer(config, ranks.world()),
                      Catch::Contains("draws every strategy, and profile") &&
                          Catch::Contains("has no measurement of SP degree"));
}

TEST_CASE("lengths that a profile does not reach are measured when they come") {
    // The profile is of long sequences; then come those of two tokens.
    const DatasetFolder folder;
    std::vector<std::int64_t> tokens(20, 150);
    tokens.back() = 201;
    test::documents_of(test::random_documents(tokens, test::kVocab)).write(folder / "long");
    tokens.insert(tokens.end(), 200, 3);
    test::documents_of(test::random_documents(tokens, test::kVocab)).write(folder / "both");
    auto config = test::small_config(folder / "long");
    config.planner.name = "dcp";
    config.optimizer.lr = 1e-3;
    config.data.shuffle = false;
    Ranks ranks;
    {
        train::Trainer trainer(config, ranks.world());
        const train::ProfileSource& source = trainer.measure_profile();
        // A folder of its own on every rank.
        source.write(folder / "profile.json");
    }
    config.data.train = {folder / "both"};
    config.profile = folder / "profile.json";
    train::Trainer trainer(config, ranks.world());
    trainer.measure_costs();
    config.profile = config::kNoProfile;
    train::Trainer plain(config, ranks.world());
    plain.measure_costs();
    std::size_t before = trainer.profile()->profile().points.size();
    int grown = 0;
    bool is_covered = false;
    for (int iteration = 1; iteration <= 16; ++iteration) {
        const auto report = trainer.run_iteration(iteration);
        const auto expected = plain.run_iteration(iteration);
        INFO("iteration " << iteration);
        CHECK(report.sequences == expected.sequences);
        CHECK(report.loss == Approx(expected.loss).epsilon(1e-5));
        CHECK(report.grad_norm == Approx(expected.grad_norm).epsilon(1e-4));
        const plan::Profile& profile = trainer.profile()->profile();
        CHECK(profile.points.size() - before <= 4);
        if (iteration > 4) {  // 20 long ones, five an iteration
            grown += profile.points.size() > before ? 1 : 0;
        }
        before = profile.points.size();
        const plan::MeasuredModel model = model_of(profile);
        is_covered = std::ranges::all_of(report.plan.steps, [&](const plan::Step& step) {
            plan::Load load;
            for (const std::int32_t index : step.sequences) {
                load += plan::load_of(report.lengths[static_cast<std::size_t>(index)]);
            }
            return model.covers(load, step.strategy);
        });
    }
    CHECK(grown > 0);
    CHECK(is_covered);  // by the end
    CHECK(is_the_same_everywhere(trainer.profile()->profile(), ranks));
}
