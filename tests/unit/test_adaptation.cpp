// The loop of plan, run and correction against a machine that is not as its model says, on data
// that changes half way. The machine is a cost model of its own, so that throughput is exact.
#include <algorithm>
#include <vector>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/plan/planner.hpp"
#include "core/train/cost_learner.hpp"
#include "core/train/prediction.hpp"

using namespace dcp;
using namespace dcp::train;
using plan::test::Dice;

namespace {

constexpr int kRanks = 8;

plan::ClosedFormConstants believed_constants() {
    plan::ClosedFormConstants constants = plan::test::round_constants();
    constants.fixed_seconds = 0.02;
    constants.per_iteration_seconds = 0;
    constants.communication_token_bytes = 200;
    constants.bandwidths = {{2, 1e6}, {4, 8e5}, {8, 4e5}};
    return constants;
}

// Attention is dearer than believed, short micro-batches cost more, and exchanges are slow.
plan::ClosedFormConstants true_constants() {
    plan::ClosedFormConstants constants = believed_constants();
    constants.fixed_seconds *= 3;
    constants.token_seconds *= 0.8;
    constants.squared_token_seconds *= 2.5;
    constants.bandwidths = {{2, 3e5}, {4, 2e5}, {8, 1e5}};
    return constants;
}

class Machine {
public:
    Machine()
        : believed_(std::make_shared<plan::ClosedForm>(believed_constants())),
          true_(std::make_shared<plan::ClosedForm>(true_constants())) {}

    // 30 to 1000 tokens, or few sequences of up to 6000.
    plan::Problem draw(bool are_long) {
        std::vector<std::int64_t> lengths;
        for (int i = 0; i < (are_long ? 10 : 60); ++i) {
            lengths.push_back(are_long ? dice_.between(500, 6000) : 30 + dice_.skewed(970));
        }
        plan::Problem problem = plan::test::problem_of(lengths, kRanks, 4);
        problem.memory_budget_bytes = 2'010'000;
        problem.cost = believed_;
        return problem;
    }
    plan::Plan plan(const plan::Problem& problem) const {
        return plan::make_planner("dcp", {.effort = plan::Effort::kFast})->plan(problem);
    }
    plan::Plan best(plan::Problem problem) const {
        problem.cost = true_;
        return plan(problem);
    }
    // What every rank measures of it.
    IterationReport run(plan::Problem problem, const plan::Plan& plan, int iteration) {
        IterationReport report;
        report.iteration = iteration;
        report.num_ranks = kRanks;
        for (const plan::Sequence& sequence : problem.sequences) {
            report.lengths.push_back(sequence.tokens);
        }
        report.read_plan(plan);
        problem.cost = true_;
        report.makespan_seconds = plan::predicted(problem, plan.steps).makespan_seconds;
        for (int rank = 0; rank < kRanks; ++rank) {
            for (std::size_t index = 0; index < plan.steps.size(); ++index) {
                const plan::Step& step = plan.steps[index];
                if (std::ranges::count(step.world_ranks, rank) > 0) {
                    const plan::StepCost cost = cost_of(problem, step);
                    const double noise = 0.97 + 0.06 * dice_.uniform();
                    report.steps.push_back(
                        {.step = static_cast<int>(index),
                         .rank = rank,
                         .communication_seconds = noise * cost.communication_seconds,
                         .seconds = noise * cost.seconds(),
                         .peak_bytes = 1});
                }
            }
        }
        return report;
    }

private:
    std::shared_ptr<const plan::CostModel> believed_;
    std::shared_ptr<const plan::CostModel> true_;
    Dice dice_{7};
};

struct Halves {
    double share[2];        // of the throughput of plans that know the machine
    double last_error = 0;  // median over steps of the last iteration
};

Halves train_both(bool corrects) {
    constexpr int kIterations = 120;  // the first few of each half are planned with wrong costs
    Machine machine;
    CostLearner learner(plan::any_degrees(kRanks), kRanks, corrects);
    Halves halves{};
    double seconds[2]{};
    double best_seconds[2]{};
    const auto plan_of = [&](plan::Problem problem) {
        learner.correct(problem);
        return machine.plan(problem);
    };
    plan::Problem now = machine.draw(false);
    plan::Plan plan = plan_of(now);
    for (int iteration = 0; iteration < kIterations; ++iteration) {
        // As in training: the next plan is made while this iteration runs.
        const plan::Problem next = machine.draw(iteration + 1 >= kIterations / 2);
        const plan::Plan next_plan = plan_of(next);
        IterationReport report = machine.run(now, plan, iteration + 1);
        learner.learn(now, report);
        const int half = iteration < kIterations / 2 ? 0 : 1;
        seconds[half] += report.makespan_seconds;
        best_seconds[half] += machine.run(now, machine.best(now), iteration + 1).makespan_seconds;
        halves.last_error = absolute_quantile(step_errors(report).seconds, 0.5);
        now = next;
        plan = next_plan;
    }
    for (const int half : {0, 1}) {
        halves.share[half] = best_seconds[half] / seconds[half];
    }
    return halves;
}

}  // namespace

TEST_CASE("data that turns from short to long keeps 95 % of the throughput of tuned plans",
          "[unit][correction]") {
    const Halves corrected = train_both(true);
    CHECK(corrected.share[0] > 0.95);
    CHECK(corrected.share[1] > 0.95);
    CHECK(corrected.last_error < 0.05);
    const Halves uncorrected = train_both(false);
    CHECK(uncorrected.share[0] < corrected.share[0] - 0.03);
    CHECK(uncorrected.last_error > 0.2);
}
