// Profiles and the model that reads them: what is written comes back, measured points are costs
// again, and what lies between or outside keeps the promises that planners and bounds rely on.
#include "tests/support/plan_profiles.hpp"
#include "tests/support/plan_search.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/micro_costs.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

namespace dcp::plan::test {

namespace {

std::string changed(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

Load single(std::int64_t tokens) {
    return load_of(tokens);
}

}  // namespace

TEST_CASE("A profile is read as it was written", "[unit]") {
    Profile profile = lawful_profile({}, 4, 2);
    profile.speeds = {1, 1, 0.5, 1};
    profile.heads = {.query = 8, .key_value = 2};
    profile.measured = {{"model", "a \"quoted\" name"}, {"machine", "b"}};
    CHECK(parse_profile(to_json(profile)) == profile);
    profile.reference = {.tokens = 128, .seconds = 2e-3};
    const std::string text = to_json(profile);
    CHECK(parse_profile(text) == profile);
    // Other programs need not know it.
    profile.reference = {};
    CHECK(parse_profile(changed(text, "\"reference\": {\"tokens\":128,\"seconds\":0.002},\n",
                                "")) == profile);
}

TEST_CASE("Mistakes in a profile are named", "[unit]") {
    const std::string text = to_json(lawful_profile({}, 2, 2));
    const auto message = [&](const std::string& from, const std::string& to) -> std::string {
        try {
            parse_profile(changed(text, from, to));
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "accepted";
    };
    using Catch::Contains;
    CHECK_THAT(message("{", "["), Contains("not JSON"));
    CHECK_THAT(message("dcp-profile-1", "dcp-profile-2"), Contains("'format' is 'dcp-profile-2'"));
    CHECK_THAT(message("\"layers\"", "\"layer\""), Contains("'layers' is missing"));
    CHECK_THAT(message("\"layers\": 3", "\"layers\": 2.5"), Contains("'layers' must be a whole"));
    CHECK_THAT(message("\"layers\": 3", "\"layers\": 10001"), Contains("from 1 to 10000"));
    CHECK_THAT(message("\"budget_bytes\":", "\"x\":1,\"budget_bytes\":"),
               Contains("'memory.x' is unknown"));
    CHECK_THAT(message("\"budget_bytes\":", "\"budget_bytes\":0,\"budget\":"),
               Contains("'memory.budget_bytes' must be a number above 0"));
    CHECK_THAT(message("\"ulysses\":1,", ""), Contains("'points[0].ulysses' is missing"));
    CHECK_THAT(message("\"link\":\"none\"", "\"link\":\"node\""), Contains("points[0].link"));
    CHECK_THAT(message("\"link\":\"none\"", "\"link\":\"wire\""),
               Contains("none, node or network"));
    CHECK_THAT(message("\"tokens\":64", "\"tokens\":0"), Contains("'points[0].tokens' must be"));
    CHECK_THAT(message("\"forward_seconds\":", "\"forward_seconds\":-"),
               Contains("points[0].forward_seconds"));
    CHECK_THAT(message("\"speeds\": []", "\"speeds\": [\"1\"]"), Contains("'speeds' must be"));
    CHECK_THAT(message("\"speeds\": []", "\"speeds\": [1, 0]"),
               Contains("'speeds': rank 1 has speed 0, and speeds are from 0.001 to 1000"));
    CHECK_THAT(message("\"reference\": {\"tokens\":0", "\"reference\": {\"tokens\":64"),
               Contains("'reference' must have"));
    CHECK_THAT(message("\"recompute\": true", "\"recompute\": 1"), Contains("true or false"));
}

TEST_CASE("Measured points are costs again, and lines between them", "[unit]") {
    const Profile profile = lawful_profile({}, 4, 2);
    const MeasuredModel model(profile, 4, 2);
    CHECK(model.worst_error() < 1e-9);
    CHECK(model.degrees() == std::vector<int>{1, 2, 3, 4});
    CHECK(model.static_bytes() == 1000 + 600 / 4);
    CHECK(model.per_iteration_seconds() == Approx(0.03));
    for (const ProfilePoint& point : profile.points) {
        const int degree = point.strategy.degree();
        const Load load{point.tokens, point.squared_tokens};
        for (const int depth : {0, 2, 3}) {
            const StepCost cost = model.cost(load, point.strategy, depth);
            const auto T = static_cast<double>(point.tokens);
            CHECK(cost.seconds() == Approx(0.01 + 1e-6 * T / degree +
                                           3 * (point.forward_seconds + point.backward_seconds) +
                                           depth * point.recompute_seconds));
            // 3 x 100; 100 + 3 x 10 where all of it is recomputed, or all but the last layer.
            CHECK(cost.peak_bytes == Approx(1150 + T / degree * (54 + (depth == 0 ? 300 : 130))));
            CHECK(model.covers(load, point.strategy));
        }
    }
    // The law is linear, so what lies between is exact too.
    const ProfilePoint between = LayerLaw{}.at(700, 300'000, 2, LinkClass::kNode);
    CHECK(model.cost({700, 300'000}, {2, 1}, 0).seconds() ==
          Approx(0.01 + 1e-6 * 350 + 9 * between.forward_seconds));
}

TEST_CASE("Outside of what was measured, costs are careful and said to be guesses", "[unit]") {
    const MeasuredModel model(lawful_profile({}, 2, 2), 2, 2);
    const Strategy one{1, 1};
    const auto seconds = [&](std::int64_t tokens) {
        return model.cost({tokens, 0}, one, 0).seconds();
    };
    CHECK(model.covers(single(64), one));
    CHECK_FALSE(model.covers(single(63), one));
    CHECK_FALSE(model.covers(single(4097), one));
    CHECK_FALSE(model.covers({4096, 100}, one));  // many tiny sequences
    CHECK_FALSE(model.covers(single(100), {3, 1}));
    CHECK(seconds(1) == Approx(seconds(64)).epsilon(0.01));  // but for what is linear beside layers
    const LayerLaw law;
    CHECK(seconds(8192) - 0.01 - 1e-6 * 8192 >
          9 * law.at(8192, 0, 1, LinkClass::kNone).forward_seconds);
    CHECK(seconds(8192) < 2 * seconds(4096));
    CHECK_THROWS_AS(model.cost(single(100), {1, 2}, 0), PlanError);
}

TEST_CASE("A profile that tells too little is refused", "[unit]") {
    Profile profile = lawful_profile({}, 2, 2);
    profile.points.clear();
    CHECK_THROWS_AS(MeasuredModel(profile, 2, 2), PlanError);
    profile.points = {LayerLaw{}.at(64, 64 * 64, 1, LinkClass::kNone),
                      LayerLaw{}.at(128, 128 * 128, 1, LinkClass::kNone)};
    CHECK_THROWS_WITH(MeasuredModel(profile, 2, 2), Catch::Contains("one sequence and as several"));
    profile = lawful_profile({}, 2, 2);
    profile.speeds = {1, 1, 1};
    CHECK_THROWS_AS(MeasuredModel(profile, 2, 2), PlanError);
    // On nodes of one rank nothing was measured over the network.
    CHECK(MeasuredModel(lawful_profile({}, 2, 2), 2, 1).degrees() == std::vector<int>{1});
}

TEST_CASE("Pieces are the cost, the line is below it, and both are monotone", "[unit]") {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const Problem problem = random_profile_problem(seed, 4, 3);
        const CostModel& model = *problem.cost;
        Dice dice(seed + 5000);
        const MicroCosts costs(problem);
        for (int draw = 0; draw < 20; ++draw) {
            const auto index = static_cast<std::size_t>(
                dice.between(0, static_cast<std::int64_t>(problem.degrees.size()) - 1));
            const int degree = problem.degrees[index];
            const int depth = static_cast<int>(dice.between(0, problem.max_recompute_layers()));
            const std::int64_t tokens = dice.skewed(20'000);
            const Load load{tokens,
                            static_cast<double>(tokens) * static_cast<double>(dice.skewed(tokens))};
            const Strategy strategy = preferred_strategy(degree, problem.heads);
            const StepCost cost = model.cost(load, strategy, depth);
            CAPTURE(seed, degree, depth, tokens);
            const LinearCost line = model.linear(degree, depth);
            CHECK(line.seconds(load) <= cost.seconds() * (1 + 1e-9));
            CHECK(line.bytes(load) <= cost.peak_bytes * (1 + 1e-9));
            CHECK(line.fixed_seconds >= 0);
            const Load more{tokens + dice.between(1, 1000), load.squared_tokens};
            CHECK(model.cost(more, strategy, depth).seconds() >= cost.seconds() * (1 - 1e-12));
            CHECK(model.cost(more, strategy, depth).peak_bytes >= cost.peak_bytes * (1 - 1e-12));
            if (const MicroCosts::Level* level = costs.level(index, tokens)) {
                CHECK(costs.seconds(index, load) ==
                      Approx(model.cost(load, strategy, level->depth).seconds()));
                CHECK(fits(problem, load, degree, level->depth));
                CHECK((level->depth == 0 || !fits(problem, load, degree, level->depth - 1)));
            } else {
                CHECK_FALSE(fits(problem, load, degree, leanest_depth(problem, load, degree)));
            }
        }
    }
}

TEST_CASE("No plan beats the bound of a measured model", "[unit]") {
    double loose = 0;
    double gaps = 0;
    constexpr int kProblems = 60;
    for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
        const Problem problem = random_profile_problem(seed, 3, 4);
        const double bound = lower_bounds(problem).best_seconds();
        const Plan plan = make_planner("dcp", {.effort = Effort::kFast})->plan(problem);
        validate(problem, plan);
        const double shortest =
            ExhaustiveSearch(problem).shortest(plan.makespan_seconds * (1 + 1e-9));
        CAPTURE(seed, bound, shortest, plan.makespan_seconds);
        CHECK(bound <= shortest * (1 + 1e-9));
        loose += shortest / bound - 1;
        gaps += plan.makespan_seconds / shortest - 1;
    }
    CHECK(loose / kProblems < 0.2);
    CHECK(gaps / kProblems < 0.02);
}

}  // namespace dcp::plan::test
