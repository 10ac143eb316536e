// Where the plan of an iteration comes from: world rank 0 makes it, on a thread of its own while
// the iteration before it runs, and every rank gets the same bytes. On one rank there is nothing to
// decide but how sequences are packed; where a cost file is given it is also predicted what they
// take.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/queue.hpp"
#include "core/config/config.hpp"
#include "core/plan/planner.hpp"
#include "core/profile/request.hpp"
#include "core/train/cost_learner.hpp"
#include "core/train/file_cost.hpp"
#include "core/train/model_cost.hpp"
#include "core/train/search_effort.hpp"
#include "core/train/step_memory.hpp"
#include "core/train/world.hpp"

namespace dcp::train {

struct GlobalBatch {
    std::vector<std::int64_t> sequences;  // ids, in the order drawn
    std::vector<std::int64_t> lengths;    // tokens of each
    std::int64_t tokens = 0;

    std::int64_t tokens_of(const plan::Step& step) const;
};

struct PlanLimits {
    std::int64_t rank_tokens = 0;     // a rank's share of a micro-batch holds at most so many
    std::int64_t longest_tokens = 0;  // of all sequences of the run
    std::int64_t budget_bytes = 0;    // of a rank
    int shallowest = 0;               // every step recomputes at least so many layers,
    int deepest = 0;                  // and at most so many
    const StepMemory* memory = nullptr;
    ModelRates rates;
};

// planner.degrees, as far as a world of so many ranks can hold them; rising. ConfigError.
std::vector<int> allowed_degrees(const config::Config& config, int ranks);

// Whether a planner decides; else a rank alone packs what it holds.
bool is_planned(const config::Config& config, const World& world);

class PlanSource {
public:
    // ConfigError, alike on all ranks, where planner.cost cannot be planned with.
    PlanSource(const config::Config& config, const World& world, const PlanLimits& limits);
    ~PlanSource();
    PlanSource(const PlanSource&) = delete;
    PlanSource& operator=(const PlanSource&) = delete;
    PlanSource(PlanSource&&) = delete;
    PlanSource& operator=(PlanSource&&) = delete;

    // SP degrees of plans, rising.
    const std::vector<int>& degrees() const { return cost_.degrees; }

    // What steps are taken to cost, from the next plan on; the same on all ranks.
    const ModelRates& rates() const { return limits_.rates; }
    void set_rates(const ModelRates& rates);
    void set_cost(TrainingCost cost);

    // Ranks take turns on processors: their speeds are not learned.
    void set_processors_shared() { learner_.set_processors_shared(); }
    // How many times slower every rank is than costs and speeds say; empty: not known.
    void set_slowness(const std::vector<double>& slowness);

    // Collective. The plan of `now`; rank 0 starts on `next` before it returns. Every rank has
    // checked it, and all have compared its hash.
    plan::Plan take(Queue& queue,
                    std::int64_t iteration,
                    const GlobalBatch& now,
                    const GlobalBatch& next);

    // Collective. Another plan of `now`, after the last one was too large for some rank: the bytes
    // of such steps are raised first. It has been replayed so often before. An error, alike on
    // all ranks, when that was often enough.
    plan::Plan replan(Queue& queue,
                      std::int64_t iteration,
                      const GlobalBatch& now,
                      const GlobalBatch& next,
                      const std::vector<MemoryShortage>& shortages,
                      int replays);

    // Micro-batches of the last plan whose costs are guesses beyond what the model knows; the same
    // on all ranks.
    std::vector<profile::Request> not_measured() const;

    // Compares the iteration of the last plan with it (CostLearner), on all ranks alike; adds what
    // was learned to the report. Plans that are not begun yet are made with it.
    void learn(const GlobalBatch& batch, IterationReport& report);

    // Of the last plan, known on rank 0: how long it took, and how long training waited for it.
    double plan_seconds() const { return plan_seconds_; }
    double exposed_seconds() const { return exposed_seconds_; }

private:
    struct Planned {
        plan::Plan plan;
        plan::Effort effort = plan::Effort::kFast;
        double seconds = 0;
        std::int64_t guesses = 0;  // steps outside of what a profile measured
    };
    // What the planning thread works on: nothing of it changes while it runs.
    struct Job {
        std::int64_t iteration = 0;
        GlobalBatch batch;
        plan::Problem problem;
        double long_makespan_seconds = 0;  // of a plan that is worth a longer search
    };
    plan::Problem uncorrected_problem(const GlobalBatch& batch) const;
    plan::Problem problem(const GlobalBatch& batch) const;
    bool predicts() const { return world_.size() > 1 || has_cost_; }
    Job job(std::int64_t iteration, const GlobalBatch& batch, bool is_awaited) const;
    Planned make(const Job& job) const;
    plan::Plan pack_here(const GlobalBatch& batch) const;
    std::int64_t tokens_held_here() const;
    double more_bytes(int degree, std::int64_t tokens) const;
    std::string describe(const MemoryShortage& shortage) const;
    void raise_bytes(const std::vector<MemoryShortage>& shortages, bool is_again);
    plan::Plan share(Queue& queue,
                     std::int64_t iteration,
                     const GlobalBatch& now,
                     const GlobalBatch& next);
    void finish(const GlobalBatch& batch, plan::Plan& plan) const;
    void warn_of_guesses(std::int64_t iteration, const Planned& planned);

    config::Config config_;
    const World& world_;
    PlanLimits limits_;
    TrainingCost cost_;
    bool has_cost_ = false;  // a file's or a profile's
    CostLearner learner_;
    std::future<Planned> ahead_;
    SearchEffort effort_;
    plan::Plan last_;  // on all ranks, with the batch it is of
    GlobalBatch last_batch_;
    double plan_seconds_ = 0;
    double exposed_seconds_ = 0;
    bool has_warned_ = false;
};

}  // namespace dcp::train
