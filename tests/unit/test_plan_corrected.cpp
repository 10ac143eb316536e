// A corrected cost model keeps what planners and bounds rely on, and says what it was told.
#include <cmath>

#include "tests/support/plan_profiles.hpp"
#include "tests/support/plan_properties.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/plan/closed_form.hpp"
#include "core/plan/corrected_model.hpp"
#include "core/plan/measured_model.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

std::shared_ptr<const CostModel> round_model() {
    return std::make_shared<ClosedForm>(test::round_constants());
}

DegreeCorrection random_correction(test::Dice& dice, int degree) {
    DegreeCorrection correction{.tokens = {}, .squared = 0.3 + 2 * dice.uniform(), .bytes = {}};
    std::int64_t tokens = degree;
    for (std::int64_t knots = dice.between(0, 6); knots > 0; --knots) {
        tokens += dice.between(1, 400);
        correction.tokens.push_back({.tokens = tokens, .factor = 0.25 + 3 * dice.uniform()});
    }
    double bytes = 0;
    for (std::int64_t steps = dice.between(0, 2); steps > 0; --steps) {
        bytes += 1000 * dice.uniform();
        correction.bytes.push_back(
            {.tokens = dice.between(1, 5) + 10 * (3 - steps), .bytes = bytes});
    }
    return correction;
}

// Everything that cost_model.hpp promises of pieces, cost and line.
void check_promises(const CostModel& model, int degree, int depth) {
    const std::vector<CostPiece> pieces = model.pieces(degree, depth);
    const LinearCost line = model.linear(degree, depth);
    REQUIRE(pieces.back().most_tokens == kUnboundedTokens);
    CHECK(pieces.front().line.fixed_seconds >= 0);
    CHECK(line.fixed_seconds >= 0);
    double seconds = 0;
    double bytes = 0;
    std::size_t piece = 0;
    for (std::int64_t tokens = 1; tokens < 20'000; tokens += 1 + tokens / 37) {
        while (tokens > pieces[piece].most_tokens) {
            ++piece;
        }
        const Load load{tokens, 900.0 * static_cast<double>(tokens)};
        const StepCost cost = model.cost(load, preferred_strategy(degree, {}), depth);
        INFO("degree " << degree << ", " << tokens << " tokens");
        CHECK(cost.seconds() == Approx(pieces[piece].line.seconds(load)).epsilon(1e-9));
        CHECK(cost.peak_bytes == Approx(pieces[piece].line.bytes(load)).epsilon(1e-9));
        CHECK(line.seconds(load) <= cost.seconds() * (1 + 1e-9));
        CHECK(line.bytes(load) <= cost.peak_bytes * (1 + 1e-9));
        CHECK(cost.seconds() >= seconds * (1 - 1e-12));
        CHECK(cost.peak_bytes >= bytes);
        CHECK(pieces[piece].line.squared_token_seconds ==
              pieces.front().line.squared_token_seconds);
        seconds = cost.seconds();
        bytes = cost.peak_bytes;
    }
}

}  // namespace

TEST_CASE("factors hold at their tokens and straight between them", "[unit][plan]") {
    const auto inner = round_model();  // 100 ms + 1 ms a token + 1 us a squared token, on one rank
    const CorrectedModel model(
        inner, {{1,
                 {.tokens = {{.tokens = 100, .factor = 2}, {.tokens = 400, .factor = 1}},
                  .squared = 3,
                  .bytes = {{.tokens = 200, .bytes = 5000}}}}});
    const auto seconds = [&](std::int64_t tokens, double squared) {
        return model.cost({tokens, squared}, {1, 1}, 0).seconds();
    };
    CHECK(seconds(1, 0) == Approx(2 * 0.101));
    CHECK(seconds(100, 0) == Approx(2 * 0.2));
    CHECK(seconds(400, 0) == Approx(0.5));
    // Half way in logarithms: 1.5 x 0.3 s at 200 tokens; a knot stands at 199, as bytes change
    // behind it.
    CHECK(seconds(199, 0) == Approx((2 - std::log(1.99) / std::log(4.0)) * 0.299));
    CHECK(seconds(4000, 0) == Approx(4.1));
    CHECK(seconds(100, 1e6) == Approx(2 * 0.2 + 3 * 1.0));
    CHECK(model.cost({199, 0}, {1, 1}, 0).peak_bytes == 10'000 + 199 * 1000);
    CHECK(model.cost({200, 0}, {1, 1}, 0).peak_bytes == 15'000 + 200 * 1000);
    // Another degree is as it was.
    CHECK(model.cost({100, 1e4}, {2, 1}, 0).seconds() ==
          inner->cost({100, 1e4}, {2, 1}, 0).seconds());
    CHECK(model.pieces(2, 0).size() == 1);
}

TEST_CASE("one factor for everything scales every number", "[unit][plan]") {
    const MeasuredModel inner(test::lawful_profile({}, 4, 2), 4, 2);
    const CorrectedModel model(
        std::make_shared<MeasuredModel>(inner),
        {{2, {.tokens = {{.tokens = 300, .factor = 1.5}}, .squared = 1.5, .bytes = {}}}});
    for (const std::int64_t tokens : {1, 64, 299, 301, 4096, 50'000}) {
        for (const Strategy& strategy : {Strategy{2, 1}}) {
            const Load load = load_of(tokens);
            CHECK(model.cost(load, strategy, 1).seconds() ==
                  Approx(1.5 * inner.cost(load, strategy, 1).seconds()));
        }
    }
    CHECK(model.linear(2, 1).squared_token_seconds ==
          Approx(1.5 * inner.linear(2, 1).squared_token_seconds));
    CHECK(model.linear(2, 1).fixed_seconds == Approx(1.5 * inner.linear(2, 1).fixed_seconds));
    CHECK(model.covers(load_of(1000), {2, 1}) == inner.covers(load_of(1000), {2, 1}));
}

TEST_CASE("corrected models keep the promises of cost models", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        test::Dice dice(seed);
        std::shared_ptr<const CostModel> inner = round_model();
        if (seed % 2 == 1) {
            inner = std::make_shared<MeasuredModel>(test::lawful_profile({}, 4, 2), 4, 2);
        }
        std::map<int, DegreeCorrection> corrections;
        for (const int degree : {1, 2, 4}) {
            corrections[degree] = random_correction(dice, degree);
        }
        const CorrectedModel model(inner, corrections);
        for (const int degree : {1, 2, 4}) {
            check_promises(model, degree, static_cast<int>(seed % 3));
        }
    }
}

TEST_CASE("planners plan with corrected models as with any other", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Problem problem = test::random_problem(seed, 6, 14);
        test::Dice dice(seed + 1000);
        std::map<int, DegreeCorrection> corrections;
        for (const int degree : problem.degrees) {
            corrections[degree] = random_correction(dice, degree);
            corrections[degree].bytes.clear();  // the problem was made so that all fit
        }
        problem.cost = std::make_shared<CorrectedModel>(problem.cost, corrections);
        const double bound = lower_bounds(problem).best_seconds();
        for (const std::string& name : planner_names()) {
            INFO("seed " << seed << ", planner " << name);
            const Plan plan = make_planner(name, {.effort = Effort::kFast})->plan(problem);
            CHECK_NOTHROW(validate(problem, plan));
            CHECK(plan.makespan_seconds >= bound * (1 - 1e-9));
        }
    }
}

TEST_CASE("corrections that make no sense are refused", "[unit][plan]") {
    const auto refuse = [](const DegreeCorrection& correction) {
        CHECK_THROWS_AS(CorrectedModel(round_model(), {{1, correction}}), PlanError);
    };
    refuse({.tokens = {{.tokens = 10, .factor = 0}}, .squared = 1, .bytes = {}});
    refuse({.tokens = {{.tokens = 10, .factor = 1}, {.tokens = 10, .factor = 1}},
            .squared = 1,
            .bytes = {}});
    refuse({.tokens = {}, .squared = std::nan(""), .bytes = {}});
    refuse({.tokens = {},
            .squared = 1,
            .bytes = {{.tokens = 5, .bytes = 2}, {.tokens = 6, .bytes = 1}}});
}
