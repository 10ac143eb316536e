// What a run learns of its costs: the pace, the shape, the speeds of ranks, bytes.
#include <algorithm>
#include <cmath>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/train/cost_learner.hpp"
#include "core/train/prediction.hpp"

using namespace dcp;
using namespace dcp::train;
using plan::test::Dice;

namespace {

// What the machine of a test really takes, beside what its model says.
struct Truth {
    double pace = 1;
    double token = 1;    // of the seconds that depend on tokens
    double squared = 1;  // of those of squared tokens
    double shared = 1;   // of all seconds of steps on several ranks
    double noise = 0.03;

    double seconds(const plan::CostModel& model, const StepSample& sample, Dice& dice) const {
        const double of_tokens = model.cost({sample.load.tokens, 0}, sample.strategy, 0).seconds();
        const double whole = model.cost(sample.load, sample.strategy, 0).seconds();
        const double degree = sample.strategy.degree() > 1 ? shared : 1;
        return pace * degree * (token * of_tokens + squared * (whole - of_tokens)) *
               (1 + noise * (2 * dice.uniform() - 1));
    }
};

std::shared_ptr<const plan::CostModel> round_model() {
    plan::ClosedFormConstants constants = plan::test::round_constants();
    constants.fixed_seconds = 0.01;
    return std::make_shared<plan::ClosedForm>(constants);
}

// Packed or whole, 64 to 4096 tokens a rank.
StepSample random_step(Dice& dice) {
    const int degree = dice.chance(0.4) ? 2 : 1;
    const std::int64_t tokens = (64 + dice.skewed(4032)) * degree;
    const double pieces = dice.chance(0.5) ? 1 : static_cast<double>(dice.between(2, 16));
    const auto T = static_cast<double>(tokens);
    return {.load = {tokens, T * T / pieces}, .strategy = {.ulysses = degree, .ring = 1}};
}

double median_error(const plan::CostModel& model,
                    const CostCorrection& correction,
                    const std::shared_ptr<const plan::CostModel>& inner,
                    const Truth& truth,
                    Dice& dice) {
    const auto corrected = correction.corrected(inner, {1, 2}, true);
    std::vector<double> errors;
    for (int i = 0; i < 400; ++i) {
        const StepSample step = random_step(dice);
        Truth exact = truth;
        exact.noise = 0;
        errors.push_back(corrected->cost(step.load, step.strategy, 0).seconds() /
                             exact.seconds(model, step, dice) -
                         1);
    }
    return absolute_quantile(errors, 0.5);
}

void run_iterations(CostCorrection& correction,
                    const plan::CostModel& model,
                    const Truth& truth,
                    int iterations,
                    Dice& dice) {
    for (int iteration = 0; iteration < iterations; ++iteration) {
        std::vector<StepSample> samples;
        for (int step = 0; step < 6; ++step) {
            samples.push_back(random_step(dice));
            samples.back().seconds = truth.seconds(model, samples.back(), dice);
        }
        correction.learn(model, samples);
    }
}

}  // namespace

TEST_CASE("a machine that differs from its model is learned", "[unit][correction]") {
    const auto model = round_model();
    Dice dice(1);
    for (const Truth& truth : {Truth{.pace = 2}, Truth{.token = 1.5, .squared = 0.6},
                               Truth{.pace = 0.3, .token = 1.2, .shared = 1.6}}) {
        CostCorrection correction({1, 2});
        const double before = median_error(*model, correction, model, truth, dice);
        run_iterations(correction, *model, truth, 40, dice);
        const double after = median_error(*model, correction, model, truth, dice);
        INFO("pace " << truth.pace << ", before " << before);
        CHECK(after < 0.06);
        CHECK(after < before / 5);
    }
}

TEST_CASE(
    "a machine that becomes slower is followed within three iterations, one bad iteration is not",
    "[unit][correction]") {
    const auto model = round_model();
    Dice dice(2);
    CostCorrection correction({1, 2});
    run_iterations(correction, *model, {}, 30, dice);
    CHECK(median_error(*model, correction, model, {}, dice) < 0.025);
    run_iterations(correction, *model, {.pace = 5}, 1, dice);
    CHECK(correction.pace() == Approx(1).epsilon(0.05));
    CHECK(median_error(*model, correction, model, {}, dice) < 0.08);
    run_iterations(correction, *model, {}, 3, dice);
    CHECK(median_error(*model, correction, model, {}, dice) < 0.04);
    run_iterations(correction, *model, {.pace = 2}, 3, dice);
    CHECK(median_error(*model, correction, model, {.pace = 2}, dice) < 0.1);
    run_iterations(correction, *model, {.pace = 2}, 20, dice);
    CHECK(median_error(*model, correction, model, {.pace = 2}, dice) < 0.04);
}

TEST_CASE(
    "what is known of the machine before the first iteration counts until iterations say more",
    "[unit][correction]") {
    plan::Problem problem = plan::test::problem_of({512, 300}, 2, 2);
    problem.cost = round_model();
    const auto corrected = [&](const CostLearner& learner) {
        plan::Problem changed = problem;
        learner.correct(changed);
        return changed;
    };
    const auto factor = [&](const plan::Problem& changed) {
        return changed.cost->cost({512, 0}, {1, 1}, 0).seconds() /
               problem.cost->cost({512, 0}, {1, 1}, 0).seconds();
    };
    CostLearner alike({1, 2}, 2, true);
    alike.start({3, 3}, {});
    CHECK(factor(corrected(alike)) == Approx(3));
    CHECK(corrected(alike).topology.speeds.empty());
    CostLearner different({1, 2}, 2, true);
    different.start({1, 4}, {});
    CHECK(factor(corrected(different)) == Approx(2));
    REQUIRE(corrected(different).topology.speeds.size() == 2);
    CHECK(corrected(different).topology.speeds[0] == Approx(2));
    CHECK(corrected(different).topology.speeds[1] == Approx(0.5));
    // A clock that stood still makes no rank a thousand times as fast, nor one that was fast
    // faster.
    CostLearner absurd({1, 2}, 2, true);
    absurd.start({1e-12, 1e12}, {});
    plan::Problem extreme = problem;
    extreme.topology.speeds = {1000, 0.001};
    absurd.correct(extreme);
    CHECK(extreme.topology.speeds == std::vector<double>{1000, 0.001});
    CHECK_NOTHROW(plan::check_problem(extreme));
    CHECK(corrected(absurd).topology.speeds == std::vector<double>{16, 1.0 / 16});
    CostLearner nearly({1, 2}, 2, true);
    nearly.start({1.08, 1.06}, {});
    CHECK(factor(corrected(nearly)) == 1);
    // That the second rank is slower was known.
    CostLearner known({1, 2}, 2, true);
    known.start({1, 4}, {1, 0.25});
    CHECK(factor(corrected(known)) == Approx(1));
    CHECK(corrected(known).topology.speeds.empty());
    // Where ranks take turns on processors there are no speeds, only a pace.
    CostLearner sharing({1, 2}, 2, true);
    sharing.set_processors_shared();
    sharing.start({1, 4}, {});
    CHECK(factor(corrected(sharing)) == Approx(2));
    CHECK(corrected(sharing).topology.speeds.empty());
    CostLearner off({1, 2}, 2, false);
    off.start({3, 3}, {});
    CHECK(factor(corrected(off)) == Approx(1));

    const auto model = round_model();
    Dice dice(5);
    CostCorrection correction({1, 2});
    correction.start_pace(3);
    CHECK(median_error(*model, correction, model, {.pace = 3}, dice) < 1e-9);
    run_iterations(correction, *model, {.pace = 1}, 3, dice);
    CHECK(correction.pace() == Approx(1).epsilon(0.05));
}

TEST_CASE("where ranks take turns only the pace is learned", "[unit][correction]") {
    const auto model = round_model();
    Dice dice(7);
    CostCorrection correction({1, 2});
    correction.keep_shape();
    run_iterations(correction, *model, {.pace = 2, .token = 2, .squared = 0.5}, 20, dice);
    CHECK(correction.pace() > 1.5);
    for (const auto& [degree, factors] : correction.shape()) {
        CHECK(factors.squared == 1);
        for (const plan::TokenFactor& one : factors.tokens) {
            CHECK(one.factor == 1);
        }
    }
}

TEST_CASE("corrections are bounded", "[unit][correction]") {
    const auto model = round_model();
    Dice dice(3);
    CostCorrection correction({1, 2});
    run_iterations(correction, *model, {.pace = 1e6, .token = 100, .squared = 0.001}, 50, dice);
    CHECK(correction.pace() == CostCorrection::kMostPace);
    for (const auto& [degree, factors] : correction.shape()) {
        CHECK(factors.squared <= CostCorrection::kMostFactor);
        CHECK(factors.squared >= 1 / CostCorrection::kMostFactor);
        for (const plan::TokenFactor& one : factors.tokens) {
            CHECK(one.factor <= CostCorrection::kMostFactor);
            CHECK(one.factor >= 1 / CostCorrection::kMostFactor);
        }
    }
}

TEST_CASE("bytes are raised for a class and those above it", "[unit][correction]") {
    const auto model = round_model();
    CostCorrection correction({1, 2});
    const auto more = [&](int degree, std::int64_t tokens) {
        const plan::Strategy strategy{.ulysses = degree, .ring = 1};
        return correction.corrected(model, {1, 2}, false)
                   ->cost({tokens, 0}, strategy, 0)
                   .peak_bytes -
               model->cost({tokens, 0}, strategy, 0).peak_bytes;
    };
    CHECK(correction.corrected(model, {1, 2}, false) == model);
    correction.raise_bytes(2, 700, 1000);  // 256 to 511 tokens a rank
    CHECK(correction.corrected(model, {1}, false) == model);
    CHECK(more(2, 511) == 0);
    CHECK(more(2, 512) == Approx(1000));
    CHECK(more(2, 100'000) == Approx(1000));
    CHECK(more(1, 700) == 0);
    correction.raise_bytes(2, 2000, 1500);
    CHECK(more(2, 1023) == Approx(1000));
    CHECK(more(2, 1024) == Approx(1500));
    correction.raise_bytes(2, 1100, 200);  // nor less than before
    CHECK(more(2, 1024) == Approx(1500));
    correction.raise_bytes(2, 140, 2000);  // never less for more tokens
    CHECK(more(2, 127) == 0);
    CHECK(more(2, 128) == Approx(2000));
    CHECK(more(2, 1024) == Approx(2000));
    // Seconds stay those of the model.
    CHECK(correction.corrected(model, {1, 2}, false)->cost({800, 0}, {2, 1}, 0).seconds() ==
          model->cost({800, 0}, {2, 1}, 0).seconds());
}

namespace {

// One iteration of four steps: two that both ranks share, one of each rank alone.
std::vector<ComputeSample> iteration_of(const std::vector<double>& slowness,
                                        double model_error,
                                        double noise,
                                        Dice& dice) {
    std::vector<ComputeSample> samples;
    for (int step = 0; step < 4; ++step) {
        const double predicted = 1 + dice.uniform();
        for (int rank = 0; rank < 2; ++rank) {
            if (step < 2 || step - 2 == rank) {
                const double seconds = predicted * model_error *
                                       slowness[static_cast<std::size_t>(rank)] *
                                       (1 + noise * (2 * dice.uniform() - 1));
                samples.push_back({.rank = rank,
                                   .step = step,
                                   .seconds = seconds,
                                   .predicted_seconds = step < 2 ? 0 : predicted});
            }
        }
    }
    return samples;
}

}  // namespace

TEST_CASE("a slow rank is found, noise and a wrong model are not", "[unit][correction]") {
    Dice dice(4);
    RankSpeeds speeds(2);
    for (int i = 0; i < 200; ++i) {
        speeds.learn(iteration_of({1, 1}, 3, 0.06, dice));
        CHECK(speeds.speeds().empty());
    }
    speeds.learn(iteration_of({1, 4}, 1, 0.1, dice));  // once is nothing
    CHECK(speeds.speeds().empty());
    for (int i = 0; i < 4; ++i) {
        speeds.learn(iteration_of({1, 2}, 1, 0.05, dice));
    }
    REQUIRE(speeds.speeds().size() == 2);
    CHECK(speeds.speeds()[1] / speeds.speeds()[0] == Approx(0.5).epsilon(0.1));
    CHECK(speeds.speeds()[0] * speeds.speeds()[1] == Approx(1).epsilon(0.02));
    for (int i = 0; i < 5; ++i) {
        speeds.learn(iteration_of({1, 1}, 1, 0.03, dice));
    }
    CHECK(speeds.speeds().empty());
}

TEST_CASE("a rank that was slow once and then gets nothing to do is tried again",
          "[unit][correction]") {
    RankSpeeds speeds(2);
    speeds.start({-1.1, 1.1});
    REQUIRE(speeds.speeds().size() == 2);
    int idle = 0;
    while (!speeds.speeds().empty() && speeds.speeds()[1] < 0.8) {
        REQUIRE(++idle < 20);
        speeds.learn({{.rank = 0, .step = 0, .seconds = 1, .predicted_seconds = 1}});
    }
    CHECK(idle > 5);  // nor is it forgotten at once
    for (int i = 0; i < 3; ++i) {
        speeds.learn({{.rank = 0, .step = 0, .seconds = 1, .predicted_seconds = 1},
                      {.rank = 1, .step = 1, .seconds = 1, .predicted_seconds = 1}});
    }
    CHECK(speeds.speeds().empty());
}
