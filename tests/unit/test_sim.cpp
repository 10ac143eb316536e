// Virtual time: replays against hand-made schedules, noise and stragglers against their laws, and
// whole runs against sums made here.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/config/rows.hpp"
#include "core/config/schema.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/closed_form.hpp"
#include "core/plan/validate.hpp"
#include "core/sim/fixed_groups.hpp"
#include "core/sim/planners.hpp"
#include "core/sim/run.hpp"

using namespace dcp;

namespace {

// A token costs a second on one rank, a micro-batch 0.5 s more; nothing else costs anything.
plan::Problem simple_problem(int ranks) {
    plan::ClosedFormConstants constants;
    constants.name = "simple";
    constants.layers = 2;
    constants.fixed_seconds = 0.5;
    constants.token_seconds = 1;
    constants.layer_token_bytes = 1;
    constants.checkpoint_token_bytes = 1;
    plan::Problem problem;
    problem.cost = std::make_shared<plan::ClosedForm>(constants);
    problem.topology = {.ranks = ranks, .ranks_per_node = ranks, .speeds = {}};
    problem.degrees = plan::power_of_two_degrees(ranks);
    problem.memory_budget_bytes = 1e6;
    return problem;
}

plan::Step step(std::vector<int> ranks, std::vector<std::int32_t> sequences) {
    const int degree = static_cast<int>(ranks.size());
    return {.world_ranks = std::move(ranks),
            .sequences = std::move(sequences),
            .strategy = {.ulysses = degree, .ring = 1}};
}

// 10 tokens on both ranks, then 4 on the first and 2 on the second: 5.5 s, then 4.5 and 2.5.
plan::Problem small_problem() {
    plan::Problem problem = simple_problem(2);
    problem.sequences = {{.id = 0, .tokens = 10}, {.id = 1, .tokens = 4}, {.id = 2, .tokens = 2}};
    return problem;
}

plan::Plan small_plan(const plan::Problem& problem) {
    return plan::predicted(problem, {step({0, 1}, {0}), step({0}, {1}), step({1}, {2})});
}

// Every sequence has so many tokens.
class Constant final : public lengths::Distribution {
public:
    explicit Constant(std::int64_t tokens) : tokens_(tokens) {}
    bool is_video() const override { return false; }
    lengths::Length longest() const override { return {.tokens = tokens_}; }
    lengths::Length draw(lengths::Words& /*words*/, std::int64_t /*position*/) const override {
        return {.tokens = tokens_};
    }

private:
    std::int64_t tokens_;
};

sim::RunReport run_constant(const sim::RunSettings& settings, std::int64_t tokens) {
    const auto planner = plan::make_planner("packed");
    const auto stream = lengths::drawn(std::make_shared<Constant>(tokens), 1);
    return sim::run(settings, *planner, *stream);
}

}  // namespace

TEST_CASE("without noise a replay is what was predicted", "[unit]") {
    const plan::Problem problem = small_problem();
    const plan::Plan made = small_plan(problem);
    const sim::Timeline timeline = sim::replay(problem, made, {}, {}, 0);
    CHECK(timeline.steps_seconds == Approx(10));
    CHECK(timeline.steps_seconds == made.makespan_seconds);
    CHECK(timeline.busy_seconds[0] == Approx(10));
    CHECK(timeline.busy_seconds[1] == Approx(8));
}

TEST_CASE("a slow rank slows every step that it takes part in", "[unit]") {
    const plan::Problem problem = small_problem();
    const plan::Plan made = small_plan(problem);
    // Twice the time of what is computed; the fixed half second stays.
    const sim::Timeline timeline = sim::replay(problem, made, {1, 0.5}, {}, 0);
    CHECK(timeline.busy_seconds[0] == Approx(10.5 + 4.5));
    CHECK(timeline.busy_seconds[1] == Approx(10.5 + 4.5));
    CHECK(timeline.steps_seconds == Approx(15));
}

TEST_CASE("noise has mean 1 and its spread, and gangs wait for their slowest rank", "[unit]") {
    constexpr double kSpread = 0.2;
    const plan::Problem problem = small_problem();
    const plan::Plan made = small_plan(problem);
    double alone = 0;
    double squares = 0;
    double gang = 0;
    constexpr int kDraws = 20'000;
    for (int iteration = 0; iteration < kDraws; ++iteration) {
        const sim::Timeline timeline =
            sim::replay(problem, made, {}, {.spread = kSpread, .seed = 5}, iteration);
        const sim::Timeline without =
            sim::replay(problem, plan::predicted(problem, {step({0, 1}, {0})}), {},
                        {.spread = kSpread, .seed = 5}, iteration);
        const double factor = (timeline.busy_seconds[0] - without.busy_seconds[0]) / 4.5;
        alone += factor / kDraws;
        squares += factor * factor / kDraws;
        gang += without.busy_seconds[0] / 5.5 / kDraws;
    }
    CHECK(alone == Approx(1).epsilon(0.005));
    CHECK(squares == Approx(std::exp(kSpread * kSpread)).epsilon(0.01));
    // The larger of two such factors: 2 Phi(spread / sqrt 2) in the mean.
    CHECK(gang == Approx(1 + std::erf(kSpread / 2)).epsilon(0.005));

    const auto once = sim::replay(problem, made, {}, {.spread = kSpread, .seed = 5}, 3);
    const auto again = sim::replay(problem, made, {}, {.spread = kSpread, .seed = 5}, 3);
    const auto other = sim::replay(problem, made, {}, {.spread = kSpread, .seed = 6}, 3);
    CHECK(once.steps_seconds == again.steps_seconds);
    CHECK(once.steps_seconds != other.steps_seconds);
}

TEST_CASE("stragglers are as many as asked for, and others with another draw", "[unit]") {
    const auto speeds = sim::straggler_speeds(100, 0.1, 2, 3, 0);
    REQUIRE(speeds.size() == 100);
    CHECK(std::count(speeds.begin(), speeds.end(), 0.5) == 10);
    CHECK(std::count(speeds.begin(), speeds.end(), 1.0) == 90);
    CHECK(sim::straggler_speeds(100, 0.1, 2, 3, 1) != speeds);
    CHECK(sim::straggler_speeds(100, 0.1, 2, 3, 0) == speeds);
    CHECK(sim::straggler_speeds(100, 0, 2, 3, 0).empty());
}

TEST_CASE("a run adds up", "[unit]") {
    sim::RunSettings settings;
    settings.problem = simple_problem(2);
    settings.problem.degrees = {1};
    settings.batch = {.sequences = 3, .tokens = {}};
    settings.iterations = 10;
    settings.sequences = 8;  // 3 + 3 + 2
    settings.once_seconds = 1;
    settings.plan_seconds = 0;
    settings.training_flops = [](const plan::Sequence& one) {
        return 50 * static_cast<double>(one.tokens);
    };
    settings.peak_flops = 100;
    const sim::RunReport report = run_constant(settings, 4);
    REQUIRE(report.iterations.size() == 3);
    CHECK(report.sequences == 8);
    CHECK(report.tokens == 32);
    // Three sequences of 4 s on two ranks: one rank has two of them, packed or not.
    const double two = report.iterations[0].steps_seconds;
    CHECK(two >= 8.5);
    CHECK(two <= 9.0);
    CHECK(report.iterations[2].steps_seconds == Approx(4.5));
    CHECK(report.seconds == Approx(2 * two + 4.5 + 3));
    CHECK(report.once_seconds == 3);
    CHECK(report.exposed_seconds == 0);
    CHECK(report.iterations[0].busy_mean == Approx((two + 4.5) / 2 / two));
    const double deviation = (two - 4.5) / 2 / two;
    CHECK(report.iterations[0].busy_variance == Approx(deviation * deviation));
    CHECK(report.iterations[0].imbalance_ratio == Approx((two - 4.5) / 2 / (two + 1)));
    CHECK(report.iterations[2].busy_variance == Approx(0).margin(1e-12));
    CHECK(report.utilization == Approx(50.0 * 32 / (100 * 2 * report.seconds)));
    CHECK(report.gap >= 0);
    for (const sim::IterationRecord& one : report.iterations) {
        CHECK(one.bound_seconds <= one.predicted_seconds * (1 + 1e-9));
        CHECK(one.seconds == Approx(one.predicted_seconds));
    }
}

TEST_CASE("planning counts only where it does not fit behind an iteration", "[unit]") {
    sim::RunSettings settings;
    settings.problem = simple_problem(1);
    settings.batch = {.sequences = 1, .tokens = {}};
    settings.iterations = 4;
    settings.plan_seconds = 4;
    const sim::RunReport hidden = run_constant(settings, 10);  // 10.5 s an iteration
    CHECK(hidden.exposed_seconds == 0);
    const sim::RunReport exposed = run_constant(settings, 1);  // 1.5 s
    CHECK(exposed.exposed_seconds == Approx(3 * 2.5));         // the first is made before the run
    CHECK(exposed.seconds == Approx(4 * 1.5 + 3 * 2.5));
}

TEST_CASE("ranks are as slow as their description says, stragglers slower still", "[unit]") {
    sim::RunSettings settings;
    settings.problem = simple_problem(2);
    settings.problem.degrees = {1};
    settings.problem.topology.speeds = {1, 0.25};
    settings.batch = {.sequences = 2, .tokens = {}};
    settings.iterations = 1;
    settings.plan_seconds = 0;
    const auto seconds = [&] { return run_constant(settings, 8).iterations[0]; };
    const double described = seconds().steps_seconds;
    CHECK(described == Approx(seconds().predicted_seconds));
    CHECK(described > 8.5 + 1e-9);  // what two ranks of speed 1 take
    settings.stragglers = {.share = 1, .slowdown = 2, .is_known = false, .is_moving = false};
    CHECK(seconds().predicted_seconds == Approx(described));
    CHECK(seconds().steps_seconds > 1.5 * described);
    settings.stragglers.is_known = true;
    CHECK(seconds().steps_seconds == Approx(seconds().predicted_seconds));
}

TEST_CASE("a planner that knows of stragglers gives them less", "[unit]") {
    sim::RunSettings settings;
    settings.problem = simple_problem(4);
    settings.problem.degrees = {1};
    settings.batch = {.sequences = 64, .tokens = {}};
    settings.stragglers = {.share = 0.25, .slowdown = 3, .is_known = false, .is_moving = false};
    const auto planner = plan::make_planner("dcp", {.effort = plan::Effort::kFast});
    const auto seconds = [&] {
        const auto stream = lengths::drawn(std::make_shared<Constant>(2), 1);
        return sim::run(settings, *planner, *stream).seconds;
    };
    const double unknown = seconds();
    settings.stragglers.is_known = true;
    const double known = seconds();
    settings.stragglers = {};
    const double without = seconds();
    CHECK(unknown > 2 * without);
    CHECK(known < 0.6 * unknown);
    CHECK(known > without);
}

TEST_CASE("fixed groups never change, and beat no bound", "[unit]") {
    const sim::FixedGroupsPlanner planner;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        plan::Problem problem = simple_problem(8);
        problem.memory_budget_bytes = 120;
        const auto lengths = lengths::parse_distribution("zipf:min=1,max=256");
        for (std::int64_t i = 0; i < 20; ++i) {
            problem.sequences.push_back({.id = i, .tokens = lengths->at(seed, i).tokens});
        }
        const plan::Plan made = planner.plan(problem);
        plan::validate(problem, made);
        CHECK(made.makespan_seconds >= plan::lower_bounds(problem).best_seconds() * (1 - 1e-9));
        for (const plan::Step& one : made.steps) {
            for (const plan::Step& other : made.steps) {
                const bool shares =
                    std::any_of(one.world_ranks.begin(), one.world_ranks.end(), [&](int rank) {
                        return std::binary_search(other.world_ranks.begin(),
                                                  other.world_ranks.end(), rank);
                    });
                CHECK((!shares || one.world_ranks == other.world_ranks));
            }
        }
    }
}

TEST_CASE("elastic batches fill idle time with what comes next, and lose nothing", "[unit]") {
    sim::RunSettings settings;
    settings.problem = simple_problem(4);
    settings.problem.degrees = {1};
    settings.batch = {.sequences = 6, .tokens = {}};
    settings.iterations = 1000;
    settings.sequences = 300;
    settings.plan_seconds = 0;
    const auto lengths = lengths::parse_distribution("zipf:min=1,max=64");
    const auto planner = plan::make_planner("packed");
    const auto run = [&] { return sim::run(settings, *planner, *lengths::drawn(lengths, 1)); };
    const sim::RunReport fixed = run();
    settings.is_elastic = true;
    const sim::RunReport elastic = run();
    CHECK(fixed.iterations.size() == 50);
    CHECK(elastic.iterations.size() < 45);
    CHECK(elastic.sequences == 300);
    CHECK(elastic.tokens == fixed.tokens);
    CHECK(elastic.seconds < 0.9 * fixed.seconds);
    CHECK(elastic.busy_mean > fixed.busy_mean + 0.1);
}

TEST_CASE("elastic batches: the next one starts where the last one ended", "[unit]") {
    // Notes what it is asked to plan.
    class Noting final : public plan::Planner {
    public:
        std::string_view name() const override { return "noting"; }
        plan::Plan plan(const plan::Problem& problem) const override {
            firsts.push_back(problem.sequences.front().id);
            for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
                is_in_order = is_in_order && problem.sequences[i].id ==
                                                 firsts.back() + static_cast<std::int64_t>(i);
            }
            return plan::make_planner("packed")->plan(problem);
        }
        mutable std::vector<std::int64_t> firsts;
        mutable bool is_in_order = true;
    };
    sim::RunSettings settings;
    settings.problem = simple_problem(4);
    settings.batch = {.sequences = 6, .tokens = {}};
    settings.is_elastic = true;
    settings.iterations = 20;
    settings.plan_seconds = 0;
    const Noting planner;
    const auto lengths = lengths::parse_distribution("zipf:min=1,max=64");
    const sim::RunReport report = sim::run(settings, planner, *lengths::drawn(lengths, 3));
    REQUIRE(planner.firsts.size() == 20);
    CHECK(planner.is_in_order);
    std::int64_t expected = 0;
    std::int64_t more = 0;
    for (std::size_t i = 0; i < planner.firsts.size(); ++i) {
        CHECK(planner.firsts[i] == expected);
        CHECK(report.iterations[i].sequences >= 6);
        expected += report.iterations[i].sequences;
        more += report.iterations[i].sequences - 6;
    }
    CHECK(more > 20);
}

TEST_CASE("in rounds every step waits for all of the round before", "[unit]") {
    plan::Problem problem = simple_problem(2);
    problem.sequences = {{.id = 0, .tokens = 4},
                         {.id = 1, .tokens = 2},
                         {.id = 2, .tokens = 1},
                         {.id = 3, .tokens = 3}};
    problem.step_mode = plan::StepMode::kRounds;
    const plan::Plan made =
        plan::predicted(problem, {step({0}, {0}), step({1}, {1}), step({0}, {2}), step({1}, {3})});
    const sim::Timeline timeline = sim::replay(problem, made, {}, {}, 0);
    CHECK(timeline.steps_seconds == Approx(4.5 + 3.5));
    CHECK(timeline.steps_seconds == made.makespan_seconds);
    CHECK(timeline.busy_seconds[0] == Approx(4.5 + 1.5));
    CHECK(timeline.busy_seconds[1] == Approx(2.5 + 3.5));
}

TEST_CASE("whoever knows planners knows the same ones", "[unit]") {
    std::vector<std::string> names = plan::planner_names();
    // The configuration of training has a list of its own: it may not know of planners.
    CHECK(config::find_key("planner.name")->allowed == config::one_of(names));
    names.emplace_back("fixed-groups");
    CHECK(sim::planner_names() == names);
    for (const std::string& name : names) {
        CHECK(sim::make_planner(name)->name() == name);
    }
    CHECK_THROWS_WITH(sim::make_planner("x"),
                      "unknown planner 'x'; known: dcp, dcp-inter, dcp-intra, bucket, packed, "
                      "random, fixed-groups");
    CHECK_THROWS_AS(plan::make_planner("fixed-groups"), ConfigError);
}
