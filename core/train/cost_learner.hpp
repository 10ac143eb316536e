// Compares every iteration with its plan and corrects what the next plans are made with: the cost
// model (core/train/correction.hpp) and the speeds of ranks (core/train/rank_speeds.hpp). What it
// is given all ranks have, so it knows the same on all of them; only world rank 0 plans with it.
#pragma once

#include <memory>
#include <vector>

#include "core/plan/problem.hpp"
#include "core/train/correction.hpp"
#include "core/train/rank_speeds.hpp"
#include "core/train/report.hpp"

namespace dcp::train {

// More than a machine that is as it was varies by, and worth saying.
bool is_clear_slowness(double slowness);

class CostLearner {
public:
    // With `corrects` false predictions stay those of the model, and only bytes are raised.
    CostLearner(std::vector<int> degrees, int ranks, bool corrects);

    // Before the first iteration: how many times slower every rank is than the model and `speeds`,
    // where there are some, say. Little slowness is none: one look at a machine is no better.
    void start(std::vector<double> slowness, const std::vector<double>& speeds);

    // Ranks take turns: seconds of a rank say nothing of its speed, nor of one step beside another;
    // together they show the pace.
    void set_processors_shared();

    // `problem` of the iteration without corrections: the model and the speeds as they were given.
    // Adds to the report what they predict, and what has been learned with this iteration.
    void learn(const plan::Problem& problem, IterationReport& report);

    // Puts model and speeds into a problem without corrections.
    void correct(plan::Problem& problem) const;

    CostCorrection& correction() { return correction_; }
    const CostCorrection& correction() const { return correction_; }

private:
    void learn_from(const plan::Problem& problem, const IterationReport& report);

    bool corrects_;
    bool learns_speeds_ = true;
    CostCorrection correction_;
    RankSpeeds speeds_;
};

}  // namespace dcp::train
