// The profiler, but for the ranks it runs on (tests/mpi/test_train_profile.cpp): what it measures,
// how it judges samples, by what profiles are known and where they are kept.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/dataset_files.hpp"
#include "tests/support/small_model.hpp"
#include <catch2/catch.hpp>

#include "comm/group_cache.hpp"
#include "core/base/errors.hpp"
#include "core/plan/measured_model.hpp"
#include "core/profile/cache.hpp"
#include "core/profile/grid_profiler.hpp"
#include "core/profile/placement.hpp"
#include "core/profile/samples.hpp"
#include "core/train/world.hpp"

namespace dcp::profile {

namespace {

constexpr plan::Strategy kAlone{1, 1};

// A curve that bends at `knee` tokens, twice as steep behind it.
plan::ProfilePoint point(const Request& request, double knee) {
    const plan::Load load = request.load();
    const auto tokens = static_cast<double>(load.tokens);
    const double seconds =
        1e-3 + 1e-6 * (tokens + std::max(0.0, tokens - knee)) + 1e-10 * load.squared_tokens;
    return {.tokens = load.tokens,
            .squared_tokens = load.squared_tokens,
            .strategy = request.strategy,
            .forward_seconds = seconds,
            .backward_seconds = 2 * seconds};
}

std::vector<plan::ProfilePoint> points(const std::vector<Request>& requests, double knee) {
    std::vector<plan::ProfilePoint> made;
    for (const Request& request : requests) {
        made.push_back(point(request, knee));
    }
    return made;
}

Key some_key() {
    return make_key({.model = test::small_model(),
                     .compute = DType::kFloat32,
                     .threads = 1,
                     .strategies = {kAlone, {2, 1}},
                     .topology = "2 ranks on 1 node: 0-1",
                     .device = "a processor"});
}

plan::Profile some_profile() {
    plan::Profile profile{.name = "small", .measured = some_key(), .layers = 2};
    profile.budget_bytes = 1e6;
    profile.points = points({{.tokens = 64}, {.tokens = 64, .sequences = 8}}, 100);
    return profile;
}

}  // namespace

TEST_CASE("A request is equal sequences, and the nearest one to any load", "[unit]") {
    const Request request{.tokens = 11, .sequences = 3};
    CHECK(request.lengths() == std::vector<std::int64_t>{4, 4, 3});
    CHECK(request.load().tokens == 11);
    CHECK(request.load().squared_tokens == 41);
    CHECK(request_for(request.load(), {2, 1}).sequences == 3);
    CHECK(request_for({100, 100.0 * 100}, kAlone) == Request{.tokens = 100, .sequences = 1});
    CHECK(request_for({100, 0}, kAlone).sequences == 100);
}

TEST_CASE("Samples that other programs have disturbed do not count", "[unit]") {
    CHECK(median({3, 1, 2}) == 2);
    CHECK(median({4, 1, 3, 2}) == 2.5);
    const std::vector<double> quiet{1.00, 1.01, 1.02, 0.99, 1.01};
    CHECK(estimate(quiet).seconds == 1.01);
    CHECK(estimate(quiet).num_rejected == 0);
    CHECK(estimate(quiet).relative_error < 0.01);
    const std::vector<double> disturbed{1.00, 3, 1.01, 2.5, 1.02, 4, 0.99, 2, 1.01, 9};
    CHECK(estimate(disturbed).seconds == 1.01);
    CHECK(estimate(disturbed).num_rejected == 5);
    CHECK(estimate(disturbed).num_kept == 5);
    const std::vector<double> both_ways{1.00, 0.4, 1.01, 0.7, 1.02, 4, 0.99, 2, 1.01};
    CHECK(estimate(both_ways).seconds == 1.01);
    CHECK(estimate(both_ways).num_kept == 5);
    // However far apart they are, some count.
    CHECK(estimate(std::vector<double>{1, 2, 4}).num_kept == 1);
    CHECK(estimate(std::vector<double>{1, 3}).seconds == 1);
    // What differs without an outlier is an error that shows.
    CHECK(estimate(std::vector<double>{1, 1.2, 1.1}).relative_error > 0.05);
    CHECK(estimate(std::vector<double>{1}).relative_error == 1);
    CHECK(estimate({}).seconds == 0);
}

TEST_CASE("Groups stay inside nodes, and no rank is in two", "[unit]") {
    const Placement pairs = place_groups(5, 5, 2);
    CHECK(pairs.groups == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
    CHECK(pairs.left_over == std::vector<int>{4});
    // Nodes of three: a pair in each, and one of four on two nodes.
    CHECK(place_groups(6, 3, 2).groups == std::vector<std::vector<int>>{{0, 1}, {3, 4}});
    CHECK(place_groups(6, 3, 2).left_over == std::vector<int>{2, 5});
    CHECK(place_groups(6, 3, 4).groups == std::vector<std::vector<int>>{{0, 1, 2, 3}});
    CHECK(place_groups(4, 2, 1).groups.size() == 4);
    CHECK_THROWS_AS(place_groups(4, 2, 5), ShapeError);
}

TEST_CASE("The grid spans all micro-batches that there may be", "[unit]") {
    const GridLimits limits{.strategies = {kAlone, {2, 1}},
                            .rank_tokens = 4096,
                            .batch_tokens = 6000,
                            .longest_tokens = 3000};
    const std::vector<Request> grid = base_grid(limits);
    for (const plan::Strategy& strategy : limits.strategies) {
        std::vector<plan::ProfilePoint> curve;
        std::int64_t most = 0;
        for (const Request& request : grid) {
            const auto lengths = request.lengths();
            CHECK(lengths.front() <= limits.longest_tokens);
            CHECK(request.tokens <= limits.batch_tokens);
            CHECK(request.tokens <= limits.rank_tokens * request.strategy.degree());
            if (request.strategy == strategy) {
                CHECK(request.tokens >= most);  // rising
                most = request.tokens;
                curve.push_back(point(request, 1e9));
            }
        }
        CHECK(most == std::min<std::int64_t>(limits.batch_tokens, 4096 * strategy.degree()));
        CHECK(curve.size() >= 8);
        CHECK(curve.size() <= 12);
        CHECK(curve.front().tokens <= 128 * strategy.degree());
    }
    // The longest sequence alone, and short ones that are no shorter than real ones.
    CHECK(std::ranges::count(grid, Request{.tokens = 3000}) == 1);
    for (const Request& request : grid) {
        CHECK(request.tokens / request.sequences >= std::min<std::int64_t>(request.tokens, 32));
    }
    // Two shapes of most, so that squares can be told from tokens.
    plan::Profile profile{.name = "grid", .ranks_per_node = 2};
    profile.points = points(grid, 1e9);
    for (plan::ProfilePoint& one : profile.points) {
        one.link = plan::link_class(one.strategy.degree(), 2);
    }
    CHECK(plan::MeasuredModel(profile, 2, 2).degrees() == std::vector<int>{1, 2});
    CHECK(missing_requests(profile.points, limits).empty());
    // Tiny and huge limits.
    CHECK(base_grid(
              {.strategies = {kAlone}, .rank_tokens = 2, .batch_tokens = 2, .longest_tokens = 2}) ==
          std::vector<Request>{{.tokens = 2}, {.tokens = 2, .sequences = 2}});
    CHECK(base_grid({.strategies = {kAlone},
                     .rank_tokens = 1 << 20,
                     .batch_tokens = 1 << 30,
                     .longest_tokens = 1 << 30})
              .size() <= 20);
}

TEST_CASE("Only what a profile does not reach is missing", "[unit]") {
    GridLimits limits{
        .strategies = {kAlone}, .rank_tokens = 1024, .batch_tokens = 1024, .longest_tokens = 1024};
    const std::vector<plan::ProfilePoint> known = points(base_grid(limits), 100);
    limits.rank_tokens = limits.batch_tokens = limits.longest_tokens = 8192;
    for (const Request& request : missing_requests(known, limits)) {
        CHECK(request.tokens > 1024);
    }
    CHECK(missing_requests(known, limits).back().tokens == 8192);
    limits.strategies.push_back({1, 2});
    CHECK(missing_requests(known, limits).back().strategy == plan::Strategy{1, 2});
    // As many tokens, but in one sequence where only shorter ones were measured.
    GridLimits longer{
        .strategies = {kAlone}, .rank_tokens = 1024, .batch_tokens = 1024, .longest_tokens = 200};
    const std::vector<plan::ProfilePoint> short_ones = points(base_grid(longer), 100);
    CHECK(missing_requests(short_ones, longer).empty());
    longer.longest_tokens = 1000;
    const std::vector<Request> missing = missing_requests(short_ones, longer);
    CHECK(std::ranges::count(missing, Request{.tokens = 1000}) == 1);
    for (const Request& request : missing) {
        CHECK(request.tokens / request.sequences > 200);
    }
}

TEST_CASE("Refinement goes where the curve bends, and ends", "[unit]") {
    const GridLimits limits{
        .strategies = {kAlone}, .rank_tokens = 8192, .batch_tokens = 8192, .longest_tokens = 8192};
    constexpr double kKnee = 700;
    std::vector<plan::ProfilePoint> known = points(base_grid(limits), kKnee);
    int rounds = 0;
    double largest_step = 0;
    while (true) {
        const std::vector<Request> next = next_refinement(known, limits, 0.02);
        if (next.empty()) {
            break;
        }
        REQUIRE(++rounds < 20);
        CHECK(next.size() == 2);
        for (const Request& request : next) {
            known.push_back(point(request, kKnee));
        }
        largest_step = std::max(largest_step, static_cast<double>(next.front().tokens));
        CHECK(next.front().tokens > 32);
    }
    CHECK(rounds > 0);
    // A straight line needs nothing.
    CHECK(next_refinement(points(base_grid(limits), 1e9), limits, 0.02).empty());
    // What was to be reached: the curve between the points.
    plan::Profile profile{.name = "bent"};
    profile.points = known;
    const plan::MeasuredModel model(profile, 1, 1);
    for (std::int64_t tokens = 32; tokens <= 8192; tokens += tokens / 4) {
        const plan::ProfilePoint truth = point({.tokens = tokens}, kKnee);
        const double seconds = truth.forward_seconds + truth.backward_seconds;
        CHECK(model.cost({tokens, truth.squared_tokens}, kAlone, 0).seconds() ==
              Approx(seconds).epsilon(0.04));
    }
}

TEST_CASE("What a curve still takes grows as it did", "[unit]") {
    CurvePace pace;
    CHECK(pace.expected(1000) == 0);
    pace.add(100, 1);
    CHECK(pace.expected(400) == Approx(4));
    pace.add(400, 8);  // twice as much for a token
    CHECK(pace.expected(1600) == Approx(64));
    pace.add(1600, 16);  // half as much: it may stay so
    CHECK(pace.expected(6400) == Approx(64));
}

TEST_CASE("Ranks that are clearly slower are told from noise", "[unit]") {
    std::vector<Measurement> measured(6);
    for (std::size_t i = 0; i < measured.size(); ++i) {
        const double noise = i % 2 == 0 ? 1.04 : 0.97;
        measured[i].rank_seconds = {1.0, noise, 1 / noise};
    }
    CHECK(clear_speeds(measured).empty());
    for (Measurement& one : measured) {
        one.rank_seconds[2] *= 2;
    }
    const std::vector<double> speeds = clear_speeds(measured);
    REQUIRE(speeds.size() == 3);
    CHECK(speeds[0] == Approx(1).epsilon(0.05));
    CHECK(speeds[2] == Approx(0.5).epsilon(0.05));
    for (Measurement& one : measured) {
        one.rank_seconds = {1, 1e-9, 1e9};  // of a clock that jumps: still what planners take
    }
    CHECK(clear_speeds(measured) == std::vector<double>{1, 1000, 0.001});
    measured.front().rank_seconds = {1};
    CHECK(clear_speeds({measured.front()}).empty());
}

TEST_CASE("Every part of a key is part of it, and differences are named", "[unit]") {
    const Key key = some_key();
    CHECK(describe_difference(key, key).empty());
    CHECK(file_name(key) == file_name(some_key()));
    for (const auto& [name, value] : key) {
        Key other = key;
        other[name] += " changed";
        const std::string difference = describe_difference(other, key);
        CHECK(difference ==
              name + ": '" + value + " changed' in the profile, '" + value + "' here");
        CHECK(file_name(other) != file_name(key));
    }
    Key less = key;
    less.erase("threads");
    CHECK(describe_difference(less, key).find("threads: '' in the profile") == 0);
    CHECK(describe_difference(key, less).find("here") != std::string::npos);
    // One rank sends no messages; several do with some version of MPI.
    const config::ModelConfig model = test::small_model();
    const Key alone = make_key({.model = model});
    const Key old = make_key({.model = model, .messages = "Some MPI v1"});
    CHECK(alone.at("libraries").find("MPI") == std::string::npos);
    CHECK(old.at("libraries") == alone.at("libraries") + "; Some MPI v1");
    const Key now = make_key({.model = model, .messages = "Some MPI v2"});
    CHECK(describe_difference(old, now) == "libraries: '" + old.at("libraries") +
                                               "' in the profile, '" + now.at("libraries") +
                                               "' here");
    CHECK(file_name(old) != file_name(now));
    for (const char* name : {"model", "precision", "backend", "device", "threads", "libraries",
                             "strategies", "topology"}) {
        CHECK(key.contains(name));
    }
}

TEST_CASE("Profiles are kept, found, and refused by key", "[unit]") {
    const test::DatasetFolder folder;
    const std::string cache = folder / "new/cache";
    const Key key = some_key();
    std::string problem;
    CHECK_FALSE(find(cache, key, problem));
    CHECK(problem.empty());
    const std::string path = cache + "/" + file_name(key);
    store(path, some_profile());
    const std::optional<Stored> found = find(cache, key, problem);
    REQUIRE(found);
    CHECK(found->profile == some_profile());
    CHECK(found->path == path);
    CHECK(found->age_seconds >= 0);
    CHECK(found->age_seconds < 60);

    Key other = key;
    other["threads"] = "7 a rank";
    CHECK_THROWS_WITH(load(path, other),
                      path +
                          ": was measured for something else: threads: '1 a rank' in the "
                          "profile, '7 a rank' here");
    CHECK_THROWS_AS(load(path + "x", key), ConfigError);
    std::ofstream(path) << "{";
    CHECK_THROWS_AS(load(path, key), ConfigError);
    CHECK_FALSE(find(cache, key, problem));
    CHECK(problem.find("not JSON") != std::string::npos);
    // Where no folder can be made.
    std::ofstream(folder / "file") << "";
    CHECK_THROWS_AS(store(folder / "file/profile.json", some_profile()), IoError);
    CHECK_FALSE(find("", key, problem));
}

TEST_CASE("Two layers are timed, and bytes are those of the whole model", "[unit]") {
    train::LocalWorld local;
    const train::World world = local.world();
    Queue queue = Queue::cpu(1);
    Arena arena(std::int64_t{64} << 20);
    config::ModelConfig config = test::small_model();
    config.layers = GENERATE(1, 2, 3);
    model::Transformer model(config, DType::kFloat32, 512, model::Purpose::kTraining, queue, arena);
    model.initialize(queue, 1);
    model.prepare(queue);
    comm::GroupCache groups(*world.groups, *world.all, *world.self, 4, &arena);
    const std::int64_t held = arena.current_bytes();
    LayerProfiler profiler(model, queue, arena, groups, 1);
    const Effort effort{.relative_error = 0.5, .sample_seconds = 0};
    const std::vector<Request> requests{{.tokens = 16}, {.tokens = 256, .sequences = 4}};
    arena.reset_peak();
    const std::vector<Measurement> measured = profiler.measure(requests, effort);
    CHECK(arena.current_bytes() == held);
    REQUIRE(measured.size() == 2);
    const model::LocalAttention whole;
    const auto layers = static_cast<int>(config.layers);
    for (const Measurement& one : measured) {
        const plan::ProfilePoint& point = one.point;
        CHECK(point.forward_seconds > 0);
        CHECK(point.backward_seconds > 0);
        CHECK(point.recompute_seconds > 0);
        CHECK(one.rank_seconds.size() == 1);
        for (int depth = 0; depth <= layers; ++depth) {
            const double exact = static_cast<double>(
                model.training_bytes(queue, whole, point.tokens, depth) -
                2 * Arena::padded_bytes(DType::kFloat32, {point.tokens, config.hidden}));
            const double said =
                plan::kept_by_layers(layers, depth, point.kept_bytes, point.checkpoint_bytes) +
                point.working_bytes;
            CHECK(said >= exact);
            CHECK(said <= 1.5 * exact);
        }
        CHECK(plan::kept_by_layers(layers, 0, point.kept_bytes, 0) + point.working_bytes >=
              static_cast<double>(
                  model.training_bytes(queue, whole, point.tokens, 0) -
                  2 * Arena::padded_bytes(DType::kFloat32, {point.tokens, config.hidden})));
    }
    CHECK(measured[1].point.forward_seconds > measured[0].point.forward_seconds);
    // No more than a step that recomputes all layers: a profile never runs out of memory.
    CHECK(arena.peak_bytes() - held <= model.training_bytes(queue, whole, 256, layers) +
                                           6 * Arena::padded_bytes(DType::kFloat32, {256}));
    profiler.set_recompute(false);
    CHECK(profiler.measure(requests, effort)[0].point.recompute_seconds == 0);
    const Ends ends = profiler.measure_ends(256, effort);
    CHECK(ends.fixed_seconds >= 0);
    CHECK(ends.token_seconds > 0);
}

TEST_CASE("Seconds are those of a machine as fast as the reference says", "[unit]") {
    train::LocalWorld local;
    const train::World world = local.world();
    Queue queue = Queue::cpu(1);
    Arena arena(std::int64_t{64} << 20);
    model::Transformer model(test::small_model(), DType::kFloat32, 512, model::Purpose::kTraining,
                             queue, arena);
    model.initialize(queue, 1);
    model.prepare(queue);
    comm::GroupCache groups(*world.groups, *world.all, *world.self, 4, &arena);
    LayerProfiler profiler(model, queue, arena, groups, 1);
    CHECK(profiler.typical_slowness() == 1);
    const Effort effort{.relative_error = 0.5, .sample_seconds = 0};
    const std::vector<Request> requests{{.tokens = 128, .sequences = 4}};
    // What does not hold of measured times; nothing where all does.
    const auto fault = [&]() -> std::string {
        profiler.set_reference({.tokens = 64});
        const plan::ProfileReference reference = profiler.reference();
        REQUIRE(reference.tokens == 64);
        REQUIRE(reference.seconds > 0);
        const double now = profiler.measure(requests, effort)[0].point.forward_seconds;
        // Ten times as fast a machine. Whatever this one does meanwhile, it is not that much.
        profiler.set_reference({.tokens = 64, .seconds = reference.seconds / 10});
        const double faster = profiler.measure(requests, effort)[0].point.forward_seconds;
        REQUIRE(profiler.reference_slowness().size() == 1);
        if (faster > now / 3 || faster < now / 100 || profiler.reference_slowness()[0] < 3 ||
            profiler.typical_slowness() < 3) {
            return "not scaled to the reference";
        }
        // Where ranks take turns, what processors did is scaled to what passes until all are done:
        // for a rank alone that is the same.
        profiler.set_reference({});
        const double own = profiler.measure(requests, effort)[0].point.backward_seconds;
        LayerProfiler sharing(model, queue, arena, groups, 1);
        sharing.set_processors_shared();
        const double shared = sharing.measure(requests, effort)[0].point.backward_seconds;
        if (shared < own / 3 || shared > own * 3) {
            return "a rank alone that takes turns is not as quick as without";
        }
        profiler.set_reference({.tokens = 64, .seconds = reference.seconds / 10});
        // A whole grid ends with what the reference really took, and points with it.
        const GridOptions options{.limits = {.strategies = {kAlone},
                                             .rank_tokens = 128,
                                             .batch_tokens = 128,
                                             .longest_tokens = 128},
                                  .reference = {.tokens = 64, .seconds = reference.seconds / 10},
                                  .effort = effort,
                                  .refine_seconds = 0};
        const GridResult grid = measure_grid(profiler, queue, *world.all, options);
        if (grid.reference.seconds < reference.seconds / 4 ||
            grid.reference.seconds > reference.seconds * 4) {
            return "the grid keeps a reference that this machine does not have";
        }
        const auto packed = std::ranges::find_if(grid.points, [](const plan::ProfilePoint& one) {
            return one.tokens == 128 && one.squared_tokens < 128 * 128;
        });
        REQUIRE(packed != grid.points.end());
        return packed->forward_seconds < now / 4 || packed->forward_seconds > now * 4
                   ? "the points of the grid are not those of its reference"
                   : "";
    };
    // Passes take microseconds, so others who want the processor can spoil some tries, not all.
    std::string found = fault();
    for (int again = 0; again < 10 && !found.empty(); ++again) {
        found = fault();
    }
    CHECK(found == "");
}

}  // namespace dcp::profile
