// The trainer: one object a rank holds what lives as long as a run; run_iteration() is design
// section 4.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/group_cache.hpp"
#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/config/config.hpp"
#include "core/data/sampler.hpp"
#include "core/data/sequences.hpp"
#include "core/model/transformer.hpp"
#include "core/train/batch_loader.hpp"
#include "core/train/evaluator.hpp"
#include "core/train/machine.hpp"
#include "core/train/optimizer.hpp"
#include "core/train/plan_source.hpp"
#include "core/train/profile_source.hpp"
#include "core/train/report.hpp"
#include "core/train/schedule.hpp"
#include "core/train/step_memory.hpp"
#include "core/train/world.hpp"

namespace dcp::train {

class Trainer {
public:
    // Opens the data, makes or loads the weights, and checks that the largest micro-batch fits
    // memory.budget: everything that can be wrong with a configuration is found here (ConfigError,
    // DataError, UnsupportedError), before anything is trained. Not collective; check_ranks_agree()
    // and everything below is.
    Trainer(const config::Config& config, const World& world);
    // On one rank.
    explicit Trainer(const config::Config& config);

    // Throws on all ranks unless all were started alike: configuration, data sets, program.
    void check_ranks_agree();

    // Finds out what steps cost on these ranks, for the planner, as `profile` and planner.cost say.
    // Without it plans are as right, and only the ratio of computing to exchanging is a guess.
    void measure_costs();
    // A profile of this model on these ranks, measured now.
    ProfileSource& measure_profile();
    // Null where costs come from elsewhere.
    ProfileSource* profile() { return profile_.get(); }
    // Where costs come from, for people; empty where plans need none.
    const std::string& cost_origin() const { return cost_origin_; }

    // Trains the next global batch; iterations count from 1. NonFiniteError leaves weights and
    // optimizer as they were.
    IterationReport run_iteration(std::int64_t iteration);

    // For tests of what happens when memory is short: called on this rank with the position of each
    // of its steps in the plan, in the step's scope of the arena. What the first allocates is there
    // when the ranks of the step ask each other whether it fits, what the second allocates is not.
    struct StepFaults {
        std::function<void(Arena&, int step)> before_asking;
        std::function<void(Arena&, int step)> after_asking;
    };
    void set_faults(StepFaults faults) { faults_ = std::move(faults); }

    // Token-mean loss of the held-out sequences; there must be some.
    double validate();
    bool can_validate() const { return !validation_.empty(); }

    // Loss of the byte-frequency model on the held-out sequences (on the training sequences where
    // none are held out).
    double frequency_loss() const;

    // Weights folder in the Hugging Face layout; IoError names a file that cannot be written.
    void save_weights(const std::string& folder);

    const Machine& machine() const { return machine_; }
    const data::SequenceTable& table() const { return *table_; }
    const data::Split& split() const { return *split_; }
    std::int64_t num_validation() const { return static_cast<std::int64_t>(validation_.size()); }
    std::int64_t micro_batch_tokens() const { return micro_batch_tokens_; }
    const World& world() const { return world_; }
    const comm::GroupCache& groups() const { return *groups_; }
    const ModelRates& rates() const { return plans_->rates(); }
    std::int64_t predicted_peak_bytes() const { return predicted_peak_bytes_; }
    Queue& queue() { return queue_; }
    Arena& arena() { return arena_; }
    model::Transformer& model() { return *model_; }

private:
    void open_data();
    void warn_of(const data::SequenceTable& table) const;
    void make_model();
    [[noreturn]] void fail_model_too_large() const;
    int deepest() const;
    void check_memory();
    void check_evaluation_memory(std::int64_t tokens);
    [[noreturn]] void fail_step_too_large(std::int64_t tokens, std::int64_t fits) const;
    void check_longest(int largest_degree, bool of_memory) const;
    void make_plans();
    ProfileSubject profile_subject();
    UpdateSeconds time_update();
    void plan_by_profile();
    void use_profile();
    void plan_by_rates();
    void measure_new(std::int64_t iteration);
    std::int64_t longest_sequence() const;
    std::int64_t largest_batch_tokens() const;
    GlobalBatch draw(data::Sampler& sampler) const;
    float weight(const GlobalBatch& batch, std::int64_t length) const;
    void run_steps(const GlobalBatch& batch, const plan::Plan& plan, IterationReport& report);
    bool may_run(const GlobalBatch& batch,
                 const plan::Step& step,
                 int index,
                 comm::Communicator& group,
                 IterationReport& report);
    void run_step(const GlobalBatch& batch,
                  const plan::Step& step,
                  int index,
                  comm::Communicator& group,
                  IterationReport& report);
    void train_step(const GlobalBatch& batch,
                    const plan::Step& step,
                    comm::Communicator& group,
                    IterationReport& report);
    std::vector<MemoryShortage> gather_shortages(const IterationReport& report);
    IterationReport begin_report(std::int64_t iteration,
                                 const GlobalBatch& batch,
                                 const plan::Plan& plan) const;
    void reduce_report(const plan::Plan& plan, IterationReport& report);
    void require_finite(const GlobalBatch& batch, const plan::Plan& plan, IterationReport& report);

    Trainer(const config::Config& config, std::unique_ptr<LocalWorld> local);

    config::Config config_;
    std::unique_ptr<LocalWorld> local_;  // without others
    World world_;
    Machine machine_;
    Queue queue_;
    Arena arena_;
    std::unique_ptr<data::SequenceTable> table_;
    std::unique_ptr<data::SequenceTable>
        validation_table_;  // of data.validation; validation_documents are part of table_
    std::unique_ptr<data::Split> split_;
    std::unique_ptr<data::Sampler> sampler_;
    std::vector<std::int64_t> validation_;
    std::int64_t micro_batch_tokens_ = 0;
    std::int64_t predicted_peak_bytes_ = 0;
    std::unique_ptr<model::Transformer> model_;
    std::unique_ptr<Optimizer> optimizer_;
    std::unique_ptr<BatchLoader> loader_;
    std::unique_ptr<Evaluator> evaluator_;
    std::unique_ptr<comm::GroupCache> groups_;
    std::unique_ptr<StepMemory> memory_;
    std::unique_ptr<PlanSource> plans_;
    std::unique_ptr<ProfileSource> profile_;
    std::string cost_origin_;
    std::int64_t num_measured_later_ = 0;  // micro-batches, by measure_new()
    model::LocalAttention local_attention_;
    StepFaults faults_;
    Schedule schedule_;
};

struct TrainOptions {
    bool profile_ops = false;
};

// `dcp profile`: measures a profile and writes it to `path`, or where `profile: auto` looks for it
// when the path is empty; says what it has measured.
void run_profile(const config::Config& config, const World& world, const std::string& path);

// What both begin with; collective. `config` is completed by what only the ranks together know.
std::unique_ptr<Trainer> make_trainer(config::Config& config, const World& world, Queue& control);

// `dcp train`: the whole run, from an empty folder to weights. Returns when all iterations are done
// or a signal asked to stop.
void run_training(const config::Config& config, const World& world, const TrainOptions& options);

}  // namespace dcp::train
